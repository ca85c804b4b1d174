"""Move or copy messages to another queue, on the same server or another, in bounded steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import redis

from ackq.errors import AckqError, ConfigurationError, LeaseLost
from ackq.queue.client import Queue
from ackq.queue.messages import Message

#: Messages of one step.
CHUNK = 500

#: Told after each step how many messages have arrived so far.
OnStep = Callable[[int], None]


def _ignore(_: int) -> None:
    """Tell nobody."""


def move(
    source: Queue, destination: Queue, n: int | None = None, *, on_step: OnStep = _ignore
) -> int:
    """Move ready messages, those that came back too, and return how many.

    Guarantee: none is lost. A step takes messages under a lease, pushes them to the destination,
    then acks them. A crash in between leaves a step's messages in both queues, to be handled
    twice; run it again and it goes on with what is left. Bodies arrive byte for byte and in
    order; receive counts begin anew.

    Args:
        source: in use or not. What is in flight, delayed or dead stays there.
        destination: another queue.
        n: how many at most. Defaults to what is ready when it begins.
        on_step: called after each step with how many have arrived.

    Raises:
        ConfigurationError: both are the same queue.
        UnknownOutcome: the destination's reply was lost; that step may arrive twice.
    """
    _check_apart(source, destination)
    wanted = source.stats().ready if n is None else n
    moved = 0
    while moved < wanted:
        messages = source.pop_many(min(CHUNK, wanted - moved))
        if not messages:
            break
        _pass_on(source, destination, messages)
        moved += len(messages)
        on_step(moved)
    return moved


def copy(
    source: Queue,
    destination: Queue,
    n: int | None = None,
    *,
    skip: int = 0,
    on_step: OnStep = _ignore,
) -> int:
    """Copy ready messages in the order of their delivery, and return how many.

    The source stays as it is. Nothing may take from it meanwhile, or messages are passed over:
    pause it first. O(n²) of tiny steps within the server on very long lists.

    Args:
        source: paused or idle.
        destination: another queue.
        n: how many at most. Defaults to what is ready when it begins.
        skip: how many to pass over: those that arrived before an error.
        on_step: called after each step with how many have arrived, ``skip`` included.

    Raises:
        ConfigurationError: both are the same queue.
        UnknownOutcome: the destination's reply was lost; that step may have arrived.
    """
    _check_apart(source, destination)
    end = skip + n if n is not None else source.stats().ready
    at = skip
    while at < end:
        seen = source.peek(min(CHUNK, end - at), skip=at)
        if not seen:
            break
        destination.push_many([each.body for each in seen])
        at += len(seen)
        on_step(at)
    return at - skip


def _pass_on(source: Queue, destination: Queue, messages: list[Message]) -> None:
    try:
        destination.push_many([message.body for message in messages])
    except BaseException:
        # They would come back by themselves; so others need not wait for that.
        with suppress(AckqError, redis.RedisError):
            source.release(*messages)
        raise
    # Refused where a step took longer than the lease: that message is in both queues now.
    with suppress(LeaseLost):
        source.ack(*messages)


def _check_apart(source: Queue, destination: Queue) -> None:
    if repr(source) == repr(destination):
        raise ConfigurationError(f"{source!r} is both source and destination")
