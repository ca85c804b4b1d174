"""RSMQ's operations, each one script call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NoReturn

from redis.exceptions import RedisError

from ackq import scripts
from ackq.config import Seconds
from ackq.core.call import Keys, call
from ackq.core.chunks import CHUNK_MESSAGES, SETTLE_CHUNK, TAKE_CHUNK, chunked
from ackq.core.dead_stream import read_dead
from ackq.core.effects import Arg, Operation, Request
from ackq.core.failure import capture
from ackq.core.inspection_results import check_entry
from ackq.core.operation_marks import Receive, Send, Settle, observed
from ackq.core.waits import WAIT_JITTER, Deadline, block, seconds_of, shorten
from ackq.errors import (
    ConfigurationError,
    InvalidValue,
    MessageNotString,
    MessageTooLong,
    NoAttributeSupplied,
    QueueExists,
    QueueNotFound,
    UnknownOutcome,
)
from ackq.rsmq.values import (
    QueueAttributes,
    RSMQCounters,
    RSMQDeadLetter,
    RSMQMessage,
    RSMQSpec,
    check_id,
    check_maxsize,
    check_seconds,
    encoded,
)

#: Most dead letters that one call redrives.
REDRIVEN = 16
#: Most dead letters that one call deletes: it frees their bodies, whose sizes are unknown.
DROP_CHUNK = 50
#: Bytes of bodies that one call sends. It also publishes a notice for each message.
CHUNK_BYTES = 1024 * 1024
#: How much more a body weighs whose characters the script may have to count: 20 ns a byte.
COUNTED_WEIGHT = 8
#: The least limit of a queue: shorter bodies are never counted.
MIN_MAXSIZE = 1024
#: Longest wait in seconds, so that messages of other clients are found within a second.
MAX_WAIT = 0.9

Mode = Literal["hide", "remove"]


def create_queue(spec: RSMQSpec, qname: str, vt: int, delay: int, maxsize: int) -> Operation[None]:
    """Create a queue; see `ackq.rsmq.RSMQ.create_queue`."""
    keys = spec.keys(qname)
    args = (check_seconds(vt, "vt"), check_seconds(delay, "delay"), check_maxsize(maxsize))
    request = Request(
        (2, keys.hash, spec.queues, qname, *args), script=scripts.load("rsmq/create_queue")
    )
    if (yield from call(spec, request, qname)) == b"exists":
        raise QueueExists(f"Queue exists: {qname!r} keeps its attributes")


def list_queues(spec: RSMQSpec) -> Operation[list[str]]:
    """List the queues; see `ackq.rsmq.RSMQ.list_queues`."""
    request = Request((b"SMEMBERS", spec.queues), resend=True)
    keys = Keys(f"namespace {spec.ns!r}", {spec.queues: "set"})
    names: Iterable[bytes] = yield from call(keys, request)
    return sorted(name.decode(errors="replace") for name in names)


def delete_queue(spec: RSMQSpec, qname: str) -> Operation[None]:
    """Delete a queue; see `ackq.rsmq.RSMQ.delete_queue`."""
    keys = spec.keys(qname)
    request = Request(
        (
            7,
            keys.zset,
            keys.hash,
            keys.wake,
            keys.waiters,
            keys.dead,
            keys.errors,
            spec.queues,
            qname,
        ),
        script=scripts.load("rsmq/delete_queue"),
    )
    if (yield from call(spec, request, qname)) == b"missing":
        _raise_missing(spec, qname)


def attributes(
    spec: RSMQSpec,
    qname: str,
    changes: dict[str, int | None] | None = None,
) -> Operation[QueueAttributes]:
    """Read, or set and read, attributes; see `ackq.rsmq.RSMQ.set_queue_attributes`."""
    keys = spec.keys(qname)
    args: list[Arg] = []
    for name, value in (changes or {}).items():
        if value is not None:
            checked = check_maxsize(value) if name == "maxsize" else check_seconds(value, name)
            args += (name, checked)
    if changes is not None and not args:
        raise NoAttributeSupplied("No attribute was supplied: give vt, delay or maxsize")
    request = Request(
        (2, keys.zset, keys.hash, *args), script=scripts.load("rsmq/attributes"), resend=True
    )
    reply = yield from call(spec, request, qname)
    if reply == b"missing":
        _raise_missing(spec, qname)
    return QueueAttributes.of(reply)


def counters(spec: RSMQSpec, qname: str) -> Operation[RSMQCounters]:
    """Read the counters; see `ackq.rsmq.RSMQ.counters`."""
    keys = spec.keys(qname)
    request = Request(
        (3, keys.zset, keys.hash, keys.dead), script=scripts.load("rsmq/counters"), resend=True
    )
    reply = yield from call(spec, request, qname)
    if reply == b"missing":
        _raise_missing(spec, qname)
    return RSMQCounters.of(reply)


@observed(Send("send", at=2))
def send_message(
    spec: RSMQSpec, qname: str, message: str | bytes, delay: int | None
) -> Operation[str]:
    """Send one message; see `ackq.rsmq.RSMQ.send_message`."""
    ids = yield from _store(spec, qname, [encoded(message)], delay, 0)
    return ids[0]


@observed(Send("send", at=2, many=True))
def send_messages(
    spec: RSMQSpec, qname: str, messages: Iterable[str | bytes], delay: int | None
) -> Operation[list[str]]:
    """Send many messages; see `ackq.rsmq.RSMQ.send_messages`."""
    if isinstance(messages, str | bytes):
        raise MessageNotString(
            f"send_messages takes several messages, not one {type(messages).__name__}: pass a list"
            " of messages, or call send_message"
        )
    bodies = [encoded(message) for message in messages]
    ids: list[str] = []
    weights = [_weight(body) for body in bodies]
    for chunk in chunked(bodies, weights, CHUNK_MESSAGES, CHUNK_BYTES):
        try:
            ids += yield from _store(spec, qname, chunk, delay, len(ids))
        except UnknownOutcome as error:
            error.stored = len(ids)
            raise
        except (RedisError, MessageTooLong) as error:
            error.add_note(f"ackq: the first {len(ids)} of {len(bodies)} messages are stored")
            raise
    return ids


@observed(Receive("receive", wanted=2))
def receive_messages(
    spec: RSMQSpec,
    qname: str,
    wanted: int,
    vt: int | None,
    timeout: Seconds | None,
    mode: Mode = "hide",
) -> Operation[list[RSMQMessage]]:
    """Receive, or pop, messages; see `ackq.rsmq.RSMQ.receive_messages`."""
    keys = spec.keys(qname)
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        raise ConfigurationError(f"a number of messages is an integer from 1, not {wanted!r}")
    hidden: Arg = b"" if vt is None else check_seconds(vt, "vt")
    deadline = Deadline(timeout)
    block_limit = min(spec.block_limit, MAX_WAIT)
    waits_ms = math.ceil(block_limit * 1000) if deadline.timeout else 0
    args = (
        6,
        keys.zset,
        keys.hash,
        keys.wake,
        keys.waiters,
        keys.dead,
        keys.errors,
        mode,
        min(wanted, TAKE_CHUNK),
        hidden,
        waits_ms,
        spec.max_receives,
    )
    script = scripts.load("rsmq/receive")
    while True:
        reply = yield from call(spec, Request(args, script=script), qname)
        status = reply[0]
        if status == b"ok":
            return [
                RSMQMessage(reply[at].decode(), reply[at + 1], reply[at + 2], reply[at + 3])
                for at in range(1, len(reply), 4)
            ]
        if status == b"again":
            continue
        if status != b"empty":
            _refuse(spec, qname, reply)
        left = yield from deadline.left()
        if not left:
            return []
        yield from _wait(spec, qname, min(block_limit, left), reply[1])


@observed(Settle("delete", at=2))
def delete_messages(spec: RSMQSpec, qname: str, ids: Iterable[str]) -> Operation[int]:
    """Delete messages; see `ackq.rsmq.RSMQ.delete_messages`."""
    keys = spec.keys(qname)
    checked = [check_id(id) for id in ids]
    deleted = at = 0
    while at < len(checked):
        request = Request(
            (3, keys.zset, keys.hash, keys.errors, *checked[at : at + SETTLE_CHUNK]),
            script=scripts.load("rsmq/delete"),
            resend=True,
        )
        count, looked = yield from call(spec, request, qname)
        deleted += count
        at += looked
    return deleted


def change_message_visibility(
    spec: RSMQSpec, qname: str, id: str, vt: int, error: BaseException | None = None
) -> Operation[bool]:
    """Change when a message becomes visible; see `ackq.rsmq.RSMQ.change_message_visibility`."""
    keys = spec.keys(qname)
    request = Request(
        (
            5,
            keys.zset,
            keys.hash,
            keys.wake,
            keys.waiters,
            keys.errors,
            check_id(id),
            check_seconds(vt, "vt"),
            capture(error, spec.record_errors),
        ),
        script=scripts.load("rsmq/visibility"),
        resend=True,
    )
    reply = yield from call(spec, request, qname)
    if reply == b"missing":
        _raise_missing(spec, qname)
    return bool(reply == b"ok")


def dead_letters(
    spec: RSMQSpec, qname: str, n: int, after: str | None
) -> Operation[list[RSMQDeadLetter]]:
    """Read dead letters; see `ackq.rsmq.RSMQ.dead_letters`."""
    keys = spec.keys(qname)
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ConfigurationError(f"a number of dead letters is an integer from 0, not {n!r}")
    if after is not None:
        check_entry(after)
    return (
        yield from read_dead(
            spec, keys.dead, lambda entry: RSMQDeadLetter.of(*entry), n, after, qname
        )
    )


def drop_dead_letters(spec: RSMQSpec, qname: str, entries: Sequence[str]) -> Operation[int]:
    """Delete dead letters; see `ackq.rsmq.RSMQ.drop_dead_letters`."""
    keys = spec.keys(qname)
    for entry in entries:
        check_entry(entry)
    dropped = 0
    for first in range(0, len(entries), DROP_CHUNK):
        chunk = entries[first : first + DROP_CHUNK]
        dropped += yield from call(spec, Request((b"XDEL", keys.dead, *chunk)), qname)
    return dropped


def redrive(spec: RSMQSpec, qname: str, n: int | None, entries: Sequence[str]) -> Operation[int]:
    """Make dead letters visible again; see `ackq.rsmq.RSMQ.redrive`."""
    keys = spec.keys(qname)
    for entry in entries:
        check_entry(entry)
    if entries:
        n = len(entries)
    elif n is None:
        n = yield from call(spec, Request((b"XLEN", keys.dead), resend=True), qname)
    elif not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ConfigurationError(f"a number of dead letters is an integer from 0, not {n!r}")
    redriven = at = 0
    while at < n:
        some = min(n - at, REDRIVEN)
        request = Request(
            (
                5,
                keys.zset,
                keys.hash,
                keys.wake,
                keys.waiters,
                keys.dead,
                some,
                *entries[at : at + some],
            ),
            script=scripts.load("rsmq/redrive"),
        )
        reply = yield from call(spec, request, qname)
        if reply == b"missing":
            _raise_missing(spec, qname)
        count, looked = reply
        if looked == 0:
            break
        redriven += count
        at += looked
    return redriven


def _store(
    spec: RSMQSpec, qname: str, bodies: Sequence[bytes], delay: int | None, before: int
) -> Operation[list[str]]:
    keys = spec.keys(qname)
    later: Arg = b"" if delay is None else check_seconds(delay, "delay")
    request = Request(
        (
            4,
            keys.zset,
            keys.hash,
            keys.wake,
            keys.waiters,
            spec.outside.token(10).hex(),
            later,
            spec.channel(qname),
            *bodies,
        ),
        script=scripts.load("rsmq/send"),
    )
    reply = yield from call(spec, request, qname)
    if reply[0] == b"ok":
        return [id.decode() for id in reply[1:]]
    if reply[0] == b"long":
        position, limit = reply[1:]
        raise MessageTooLong(
            f"Message too long: message {before + position} of this call, of"
            f" {len(bodies[position - 1])} bytes, is over the maxsize of {qname!r}, {limit} UTF-16"
            " units. Store the content elsewhere and send a reference, or raise maxsize"
        )
    _refuse(spec, qname, reply)


def _wait(spec: RSMQSpec, qname: str, block_limit: float, next_in: int) -> Operation[None]:
    """Wait for a token from ackq's senders, the next visible message, or the block limit."""
    if next_in >= 0:
        left = next_in / 1000 + spec.outside.fraction() * WAIT_JITTER
        block_limit = yield from shorten(block_limit, left)
        if not block_limit:
            return
    command = (b"BLPOP", spec.keys(qname).wake, seconds_of(block_limit))
    yield from block(spec, command, block_limit, qname)


def _refuse(spec: RSMQSpec, qname: str, reply: Sequence[Any]) -> NoReturn:
    if reply[0] == b"missing":
        _raise_missing(spec, qname)
    attribute, value = (part.decode(errors="replace") for part in reply[1:])
    raise InvalidValue(
        f"queue {qname!r} has {attribute}={value!r}, which cannot be read: correct it with"
        f" set_queue_attributes({qname!r}, {attribute}=…). Nothing was changed"
    )


def _raise_missing(spec: RSMQSpec, qname: str) -> NoReturn:
    raise QueueNotFound(f"Queue not found: there is no {qname!r} in {spec.ns!r}: create it first")


def _weight(body: bytes) -> int:
    """Return the length of a body, or more if the script may have to count its characters."""
    counted = len(body) > MIN_MAXSIZE and not body.isascii()
    return len(body) * (COUNTED_WEIGHT if counted else 1)
