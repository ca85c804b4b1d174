"""Push one or many messages, ready now or later, optionally deduplicated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from redis.exceptions import RedisError

from ackq import scripts
from ackq.config import Confirm, Seconds, microseconds
from ackq.core.call import call
from ackq.core.chunking import CHUNK_BYTES, CHUNK_MESSAGES, end_of_chunk
from ackq.core.confirm import check_confirmed, require_confirmable
from ackq.core.effects import Arg, Clock, Operation, Request
from ackq.core.encode import Pushable, encode, encode_many
from ackq.core.ids import key_of_id
from ackq.core.limits import MAX_DEDUP_WINDOW, MAX_DELAY
from ackq.core.observed import Send, observed
from ackq.core.retries import raise_if_unknown
from ackq.errors import (
    AckqError,
    ConfigurationError,
    NotConfirmed,
    PartlyStored,
    UnknownOutcome,
    redact,
)
from ackq.queue.messages import Pushed
from ackq.queue.pop_from import before_push
from ackq.queue.spec import QueueSpec

#: Messages for later that one call stores: a script adds them one by one, at up to 8 µs each.
CHUNK_SCHEDULED = 500
#: The arguments ``when`` and ``due`` of the push scripts for a message that is ready at once.
NOW = ("now", 0)


@observed(Send("push"))
def push(
    spec: QueueSpec,
    message: Pushable,
    delay: Seconds | None,
    at: float | datetime | None,
    dedup: str | None,
    dedup_window: Seconds,
    confirm: Confirm | None,
) -> Operation[Pushed]:
    """Push one message; see `ackq.Queue.push`."""
    id, body = encode(message, spec.config.max_body_bytes, spec.outside, spec.config.time_field)
    when = NOW if delay is None and at is None else _due(delay, at)
    if (now := (yield Clock())) >= spec.push_check.due:
        yield from before_push(spec.keys, spec.push_check, now)
    if dedup is None:
        yield from _store(spec, [id], [body], when, confirm)
        return Pushed(id)
    if not isinstance(dedup, str) or not dedup or len(dedup.encode()) > 512:
        raise ConfigurationError(f"dedup is 1 to 512 bytes of text, not {dedup!r}")
    window = microseconds(dedup_window, "dedup_window", MAX_DEDUP_WINDOW)
    keys = spec.keys
    request = Request(
        (
            *keys.passed("push_once", keys.dedup(dedup)),
            max(1, window // 1000),
            id,
            body,
            *when,
            key_of_id(id) or b"",
            keys.pop_from,
        ),
        script=scripts.load("push_once"),
        resend=True,  # the marker makes a second application harmless
        confirm=confirm,
    )
    try:
        if confirm is None:
            reply = yield from call(spec, request)
        else:
            reply = yield from _confirmed(spec, request, confirm)
    except RedisError as error:
        raise_if_unknown(error, request)
        raise
    stored, first_id = reply
    pushed = Pushed(first_id.decode())
    if not stored:
        # The lost first attempt may have stored it.
        pushed.stored = None if request.reply_lost and pushed == id else False
    return pushed


@observed(Send("push", many=True))
def push_many(
    spec: QueueSpec,
    messages: Iterable[Pushable],
    delay: Seconds | None,
    at: float | datetime | None,
    confirm: Confirm | None,
) -> Operation[list[str]]:
    """Push many messages; see `ackq.Queue.push_many`."""
    ids, bodies = encode_many(
        messages, spec.config.max_body_bytes, spec.outside, spec.config.time_field
    )
    sizes, most = list(map(len, bodies)), CHUNK_MESSAGES
    when = _due(delay, at)
    if when != NOW:
        most = CHUNK_SCHEDULED
    if (now := (yield Clock())) >= spec.push_check.due:
        yield from before_push(spec.keys, spec.push_check, now)
    stored = 0
    while stored < len(bodies):
        end = end_of_chunk(sizes, stored, most, CHUNK_BYTES)
        try:
            yield from _store(spec, ids[stored:end], bodies[stored:end], when, confirm)
        except (AckqError, RedisError, OSError) as error:
            ended = account(error, range(stored), range(stored, end), range(end, len(bodies)))
            raise ended from ended.__cause__
        stored = end
    return ids


def account(
    error: Exception, stored: Sequence[int], sending: Sequence[int], rest: Sequence[int]
) -> Exception:
    """Return the error to raise after ``error`` ended a push of many messages.

    Args:
        error: raised by the call that stores ``sending``.
        stored: positions of the messages that earlier calls stored.
        sending: positions of the messages of this call.
        rest: positions of the messages that have not been sent.
    """
    if isinstance(error, NotConfirmed):
        return error.account([*stored, *sending], (), rest)
    if isinstance(error, UnknownOutcome):
        error.stored = len(stored)
        return error.account(stored, sending, rest)
    if not stored:
        return error  # nothing is stored, as in a push of one message
    early = PartlyStored(f"the push ended early: {redact(str(error)) or type(error).__name__}")
    early.__cause__ = error
    return early.account(stored, (), [*sending, *rest])


def _store(
    spec: QueueSpec,
    ids: list[str],
    bodies: list[bytes],
    when: tuple[str, int],
    confirm: Confirm | None,
) -> Operation[Any]:
    if when == NOW:
        request = Request((*spec.push_command, *bodies), confirm=confirm)
    else:
        pairs: list[Arg] = []
        for pair in zip(ids, bodies, strict=True):
            pairs += pair
        request = Request(
            (*spec.keys.passed("schedule"), *when, *pairs),
            scripts.load("schedule"),
            confirm=confirm,
        )
    return call(spec, request) if confirm is None else _confirmed(spec, request, confirm)


def _confirmed(spec: QueueSpec, request: Request, confirm: Confirm) -> Operation[Any]:
    """Send the request, and check how many servers confirmed it."""
    yield from require_confirmable(confirm)
    reply, confirmation = yield from call(spec, request)
    check_confirmed(confirm, confirmation)
    return reply


def _due(delay: Seconds | None, at: float | datetime | None) -> tuple[str, int]:
    """Return the arguments ``when`` and ``due`` of a push script."""
    if delay is not None and at is not None:
        raise ConfigurationError("give delay or at, not both")
    if delay is not None:
        return "delay", microseconds(delay, "delay", MAX_DELAY, zero=True)
    if at is not None:
        if isinstance(at, datetime):
            if at.tzinfo is None:
                raise ConfigurationError(
                    f"at={at!r} has no time zone: Redis and you may differ; add one"
                )
            at = at.timestamp()
        if not isinstance(at, int | float) or isinstance(at, bool):
            raise ConfigurationError(f"at is seconds since the epoch or a datetime, not {at!r}")
        return "at", microseconds(max(at, 1e-6), "at", MAX_DELAY)
    return NOW
