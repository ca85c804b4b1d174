"""Move or copy messages to another queue, on the same server or another, in bounded steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import redis

from ackq.errors import AckqError, ConfigurationError, LeaseLost
from ackq.queue.client import Queue
from ackq.queue.messages import Message

#: Messages in one step.
CHUNK = 500

#: Called after each step with the number of messages that have arrived so far.
OnStep = Callable[[int], None]


def ignore(_: int) -> None:
    """Do nothing."""


class Destination(Protocol):
    """A queue, sharded or not, that messages are moved to."""

    def push_many(self, messages: list[bytes]) -> list[str]:
        """Store messages."""


def move_all(
    sources: Sequence[Queue],
    destination: Destination,
    n: int | None = None,
    *,
    on_step: OnStep = ignore,
) -> int:
    """Move ready messages of several queues, one after the other; see `move`."""
    moved = 0
    for source in sources:
        before = moved
        moved += move(
            source,
            destination,
            None if n is None else n - moved,
            on_step=lambda count: on_step(before + count),  # noqa: B023
        )
    return moved


def copy_all(
    sources: Sequence[Queue],
    destination: Destination,
    n: int | None = None,
    *,
    skip: int = 0,
    on_step: OnStep = ignore,
) -> int:
    """Copy ready messages of several queues, one after the other; see `copy`.

    Args:
        sources: paused or idle.
        destination: another queue.
        n: the most messages to copy. Defaults to the number ready at the start.
        skip: messages of all sources to skip.
        on_step: called after each step with the number that have arrived, including ``skip``.
    """
    copied = passed = 0
    for source in sources:
        ready = source.stats().ready
        first = min(ready, max(0, skip - passed))
        before, left = passed, ready - first if n is None else min(ready - first, n - copied)
        copied += copy(
            source,
            destination,
            left,
            skip=first,
            on_step=lambda count: on_step(before + count),  # noqa: B023
        )
        passed += ready
    return copied


def move(
    source: Queue, destination: Destination, n: int | None = None, *, on_step: OnStep = ignore
) -> int:
    """Move ready messages, including redelivered ones, and return how many were moved.

    Guarantee: no message is lost. Each step takes messages under a lease, pushes them to the
    destination, then acks them. A crash in between leaves that step's messages in both queues, so
    they are handled twice. Run it again to move the rest. Bodies arrive byte for byte and in
    order. Receive counts start from zero.

    Args:
        source: may be in use. Messages in flight, delayed or dead stay there.
        destination: another queue.
        n: the most messages to move. Defaults to the number ready at the start.
        on_step: called after each step with the number of messages that have arrived.

    Raises:
        ConfigurationError: source and destination are the same queue.
        UnknownOutcome: the destination's reply was lost; that step may arrive twice.
    """
    check_apart(source, destination)
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
    destination: Destination,
    n: int | None = None,
    *,
    skip: int = 0,
    on_step: OnStep = ignore,
) -> int:
    """Copy ready messages in delivery order, and return how many were copied.

    The source is not changed. If a consumer takes from it meanwhile, messages are skipped, so
    pause it first. On very long lists, the server needs O(n²) tiny steps.

    Args:
        source: paused or idle.
        destination: another queue.
        n: the most messages to copy. Defaults to the number ready at the start.
        skip: messages to skip: those that arrived before an error.
        on_step: called after each step with the number that have arrived, including ``skip``.

    Raises:
        ConfigurationError: source and destination are the same queue.
        UnknownOutcome: the destination's reply was lost; that step may have arrived.
    """
    check_apart(source, destination)
    end = skip + n if n is not None else source.stats().ready
    at = skip
    while at < end:
        seen = source.peek(min(CHUNK, end - at), skip=at)
        if not seen:
            break
        destination.push_many([message.body for message in seen])
        at += len(seen)
        on_step(at)
    return at - skip


def _pass_on(source: Queue, destination: Destination, messages: list[Message]) -> None:
    try:
        destination.push_many([message.body for message in messages])
    except BaseException:
        # They would be redelivered anyway, but only when their leases end.
        with suppress(AckqError, redis.RedisError):
            source.release(*messages)
        raise
    # Rejected if the step took longer than the lease: the message is then in both queues.
    with suppress(LeaseLost):
        source.ack(*messages)


def check_apart(source: object, destination: object) -> None:
    """Raise an error if both are the same queue.

    Raises:
        ConfigurationError: they are.
    """
    if repr(source) == repr(destination):
        raise ConfigurationError(f"{source!r} is both source and destination")
