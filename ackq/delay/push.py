"""Push to a delay queue; cancel and reschedule by key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from redis.exceptions import RedisError

from ackq import scripts
from ackq.config import Confirm, Seconds
from ackq.core.call import call
from ackq.core.chunks import CHUNK_MESSAGES, chunked
from ackq.core.confirm import check_confirmed, require_confirmable
from ackq.core.effects import Arg, Operation, Request
from ackq.core.encode import several
from ackq.core.operation_marks import Send, observed
from ackq.delay.messages import DelayEntry, DelaySpec, due, encode_body, encode_key, raw_key
from ackq.errors import DuplicateMessage, InvalidMessage, KeyTypeError, UnknownOutcome

#: Most messages that one call pushes: a script adds them one by one, at up to 10 µs each.
CHUNK_PUSHED = 500


@observed(Send("push", many=True))
def push_many(
    spec: DelaySpec, entries: Iterable[DelayEntry], confirm: Confirm | None = None
) -> Operation[int]:
    """Push; see `ackq.delay.DelayQueue.push_many`."""
    encoded = [_encoded(spec, entry) for entry in several(entries, "push_many")]
    if confirm is not None:
        yield from require_confirmable(confirm)
    stored = sent = 0
    duplicates: list[str] = []
    sizes = [len(message.body) for message in encoded]
    for chunk in chunked(encoded, sizes, CHUNK_PUSHED):
        partitions = sorted({message.partition for message in chunk})
        keys = spec.keys_of(partitions)
        args: list[Arg] = []
        for message in chunk:
            args += (partitions.index(message.partition) + 1, *message[2:])
        request = Request(
            (len(keys), *keys, *args), script=scripts.load("delay/push"), confirm=confirm
        )
        try:
            reply = yield from call(spec, request)
        except UnknownOutcome as error:
            error.stored = stored
            raise
        except (RedisError, KeyTypeError) as error:
            error.add_note(f"ackq: the first {sent} of {len(encoded)} messages were sent")
            raise
        if confirm is not None:
            reply, confirmation = reply
            check_confirmed(confirm, confirmation)
        duplicates += [chunk[position - 1].key for position in reply]
        stored += len(chunk) - len(reply)
        sent += len(chunk)
    if duplicates:
        named = ", ".join(map(repr, duplicates[:5])) + (", ..." if len(duplicates) > 5 else "")
        raise DuplicateMessage(
            f"delay queue {spec.name!r} has a message with the key {named} already, which was left"
            f" as it is; {stored} others were stored. Cancel or reschedule it, or use another key",
            keys=tuple(duplicates),
            stored=stored,
        )
    return stored


def cancel(
    spec: DelaySpec, keys: Sequence[str], partition: int | None, in_flight: bool
) -> Operation[int]:
    """Delete by key; see `ackq.delay.DelayQueue.cancel`."""
    chosen = [(spec.index_of(raw, partition), raw) for raw in map(raw_key, keys)]
    canceled = first = 0
    while first < len(chosen):
        chunk = chosen[first : first + CHUNK_MESSAGES]
        partitions = sorted({index for index, _ in chunk})
        passed = spec.keys_of(partitions)
        args: list[Arg] = [int(in_flight)]
        for index, raw in chunk:
            args += (partitions.index(index) + 1, raw)
        # Not resent: a repeat would return 0.
        request = Request((len(passed), *passed, *args), script=scripts.load("delay/cancel"))
        count, looked = yield from call(spec, request)
        canceled += count
        first += looked
    return canceled


def reschedule(
    spec: DelaySpec,
    key: str,
    delay: Seconds | None,
    delay_ms: int | None,
    at: float | datetime | None,
    at_ms: int | None,
    partition: int | None,
) -> Operation[bool]:
    """Change a ready time by key; see `ackq.delay.DelayQueue.reschedule`."""
    raw = raw_key(key)
    keys = spec.partitions[spec.index_of(raw, partition)].all()
    request = Request(
        (len(keys), *keys, raw, *due(delay, delay_ms, at, at_ms)),
        script=scripts.load("delay/reschedule"),
        resend=True,
    )
    moved: int = yield from call(spec, request)
    return bool(moved)


class _Encoded(NamedTuple):
    """A message as the script takes it."""

    partition: int
    key: str
    clock: str
    time: int
    raw_key: bytes
    body: bytes


def _encoded(spec: DelaySpec, entry: DelayEntry) -> _Encoded:
    if not isinstance(entry, DelayEntry):
        raise InvalidMessage(
            f"push_many takes a list of DelayEntry, not of {type(entry).__name__}: wrap each, as in"
            " DelayEntry(key, body, delay=60)"
        )
    raw = encode_key(entry.key)
    body = encode_body(entry.key, entry.body, spec.config.max_body_bytes)
    clock, time = due(entry.delay, entry.delay_ms, entry.at, entry.at_ms)
    return _Encoded(spec.index_of(raw, entry.partition), entry.key, clock, time, raw, body)
