"""The end of the list that consumers pop: recorded at first use, and compared afterwards.

Only the left end has a record. It is a string under the name that a queue popped from the right
has for its held lists, a sorted set. So the scripts refuse a client of the other end by the type of
a key that they read anyway. Only a plain push runs no script, so it is checked here.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from redis.exceptions import NoPermissionError, ResponseError

from ackq import scripts
from ackq.config import PopFrom, QueueConfig
from ackq.core.call import Keys, call, raise_for_type
from ackq.core.effects import Operation, Request
from ackq.errors import KeyTypeError, PopFromMismatch
from ackq.queue import group_record
from ackq.queue.keys import QueueKeys

#: Seconds after which a client that pushes compares its end with the record again.
RECHECK = 10.0


@dataclass
class PushCheck:
    """When the next check is due, in seconds of a monotonic clock."""

    due: float = -math.inf


class HasKeys(Protocol):
    """A queue as operations see it."""

    @property
    def keys(self) -> QueueKeys:
        """The names of its keys."""


def before_push(keys: QueueKeys, check: PushCheck, now: float) -> Operation[None]:
    """Refuse to push onto the end that other clients pop. The next check is due in `RECHECK` s.

    If the user may not look, the check is skipped, now and later.

    Args:
        keys: of the queue.
        check: is due.
        now: the time of the monotonic clock.

    Raises:
        PopFromMismatch: the queue is popped from the other end.
    """
    try:
        if keys.pop_from == "left":
            yield from record(keys)
        else:
            yield from compare(keys)
    except NoPermissionError:
        check.due = math.inf
    else:
        check.due = now + RECHECK


def record(keys: QueueKeys) -> Operation[None]:
    """Record that the queue is popped from the left, unless it is popped from the right now.

    Raises:
        PopFromMismatch: a consumer that pops from the right holds leases or claims.
        GroupsMismatch: the queue has groups.
        KeyTypeError: a key has another type.
    """
    if (yield from _call(keys, b"record")) != b"left":
        _raise_mismatch(keys, "right")


def forget(keys: QueueKeys) -> Operation[None]:
    """Delete the record of a queue that is popped from the left, if no message depends on it."""
    if keys.pop_from == "left":
        yield from _call(keys, b"forget")


def forget_if_unused(spec: HasKeys) -> Operation[None]:
    """Delete the record if the list does not exist either, as after its only use."""
    if not (yield Request((b"EXISTS", spec.keys.ready), resend=True)):
        yield from forget(spec.keys)


def _call(keys: QueueKeys, verb: bytes) -> Operation[bytes]:
    passed = keys.passed("pop_from")
    request = Request((*passed, verb), script=scripts.load("pop_from"), resend=True)
    expected = keys.types() | {keys.record: "record of the left end"}
    try:
        end: bytes = yield from call(Keys(f"queue {keys.base.decode()!r}", expected), request)
    except KeyTypeError:
        if (yield from group_record.recorded(keys)):
            yield from group_record.compare(keys, QueueConfig())
        raise
    return end


def compare(keys: QueueKeys) -> Operation[bytes]:
    """Compare the end with the record, and write nothing.

    Returns:
        The record of a queue that is popped from the right; empty: it has none.

    Raises:
        PopFromMismatch: the queue is popped from the other end.
    """
    kind: bytes = yield Request((b"TYPE", keys.record), resend=True)
    if kind == b"zset" and keys.pop_from == "left":
        _raise_mismatch(keys, "right")
    if kind != b"string" or keys.pop_from == "left":
        return b""
    if (record := (yield from _record_of(keys))) == b"left":
        _raise_mismatch(keys, "left")
    return record


def raise_for_reply(
    keys: QueueKeys, expected: Mapping[bytes, str], error: ResponseError
) -> Operation[NoReturn]:
    """Raise the error that a reply means.

    Args:
        keys: of the queue.
        expected: the keys that were passed, and their types.
        error: what Redis replied.

    Raises:
        PopFromMismatch: the queue is popped from the other end.
        GroupsMismatch: the queue has groups, and this client has none.
        KeyTypeError: a key has another type.
        ResponseError: ``error`` itself, if it is another one.
    """
    if "WRONGTYPE" in str(error) and not keys.grouped:
        with contextlib.suppress(NoPermissionError):  # a bare producer may not look
            group_record.check(keys, (yield from compare(keys)), QueueConfig())
    yield from raise_for_type(f"queue {keys.base.decode()!r}", expected, error)
    raise error  # only for mypy: the line before always raises


def recorded(keys: QueueKeys) -> Operation[PopFrom]:
    """Return the end that is popped: the left one if that is recorded, else the right one."""
    kind: bytes = yield Request((b"TYPE", keys.record), resend=True)
    if kind == b"string" and (yield from _record_of(keys)) == b"left":
        return "left"
    return "right"


def recorded_settings(keys: QueueKeys) -> Operation[dict[str, Any]]:
    """Return the settings that are recorded of a queue: its end, or its groups and its limit."""
    try:
        record = yield from compare(keys)
    except PopFromMismatch:
        return {"pop_from": "left"}
    return group_record.settings_of(record)


def is_missing(error: ResponseError) -> bool:
    """Return whether a script found no record that the queue is popped from the left."""
    return str(error).startswith("ACKQ_POP_FROM")


def _record_of(keys: QueueKeys) -> Operation[bytes]:
    try:
        return (yield Request((b"GET", keys.record), resend=True)) or b""
    except NoPermissionError:
        return b"left"  # it has the type of one


def _raise_mismatch(keys: QueueKeys, recorded: str) -> NoReturn:
    name = keys.base.decode()
    since = "recorded at its first use" if recorded == "left" else "and messages are in flight now"
    raise PopFromMismatch(
        f"queue {name!r} is popped from the {recorded}, {since}; this client has"
        f" pop_from={keys.pop_from!r}. Nothing was changed. Use pop_from={recorded!r} (--pop-from"
        f" {recorded}). To change the queue's end, stop its consumers, then run: ackq drain {name}",
        recorded=recorded,
    )
