"""Find queues, and read the counts of queues and servers."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from redis.exceptions import NoPermissionError, ReadOnlyError, ResponseError

from ackq.config import QueueConfig
from ackq.core.effects import Operation, Request
from ackq.core.names import SUFFIXES, check_name
from ackq.errors import PopFromMismatch, QueueNameError
from ackq.ops.trials import is_denial
from ackq.queue import inspection
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import QueueCounters, QueueStats
from ackq.queue.spec import QueueSpec

#: Keys that one SCAN examines.
SCANNED = 1000
#: A pattern for the ends of side keys' names, so that the server can filter keys.
_PATTERN = b"*[A-Z][A-Z][A-Z][DFPST]"


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The counts of a queue at one time."""

    stats: QueueStats
    #: What consumers did since the queue is watched; None if it is not watched.
    counters: QueueCounters | None


@dataclass(frozen=True, slots=True)
class Server:
    """Facts that a server reports. None: this user may not ask."""

    #: The server's time, in seconds since the epoch.
    at: float | None
    #: Commands that the server has processed since it started.
    commands: int | None


def scan(cursor: bytes) -> Operation[tuple[bytes, set[str]]]:
    """Scan the next `SCANNED` keys; return the new cursor and the queues found.

    A list that no consumer ever took from has no side keys. It looks like any list, and is not
    found.
    """
    request = Request((b"SCAN", cursor, b"MATCH", _PATTERN, b"COUNT", SCANNED), resend=True)
    cursor, keys = yield request
    return cursor, {name for key in keys if (name := queue_of(key))}


def queue_of(key: bytes) -> str | None:
    """Return the name of the queue whose side key this may be."""
    try:
        text = key.decode()
        name = next(text.removesuffix(each) for each in SUFFIXES if text.endswith(each))
        check_name(name)
    except (UnicodeDecodeError, StopIteration, QueueNameError):
        return None
    return name


def read_counts(name: str, window: float | None) -> Operation[QueueCounts]:
    """Return the counts of queue ``name``.

    Args:
        name: of the queue.
        window: let its consumers count for this many more seconds; None: do not change that.

    Raises:
        KeyTypeError: a key of that name is not a queue's.
    """
    spec = QueueSpec(name, QueueKeys.of(name), QueueConfig())
    try:
        stats = yield from inspection.stats(spec)
    except PopFromMismatch:
        spec = QueueSpec(name, QueueKeys.of(name, "left"), QueueConfig(pop_from="left"))
        stats = yield from inspection.stats(spec)
    return QueueCounts(stats, (yield from _counters(spec, window)) if window else None)


def _counters(spec: QueueSpec, window: float) -> Operation[QueueCounters | None]:
    try:
        return (yield from inspection.counters(spec, window))
    except ResponseError as error:
        # Users that may only count, and replicas, can still show the stats.
        if is_denial(error) or isinstance(error, ReadOnlyError):
            return None
        raise


def ask_server() -> Operation[Server]:
    """Return the server's time and its number of processed commands."""
    at = commands = None
    with suppress(NoPermissionError):
        info: bytes = yield Request((b"INFO", b"stats"), resend=True)
        if found := re.search(rb"^total_commands_processed:(\d+)", info, re.MULTILINE):
            commands = int(found[1])
    with suppress(NoPermissionError):
        time = yield Request((b"TIME",), resend=True)
        at = int(time[0]) + int(time[1]) / 1_000_000
    return Server(at, commands)


def rate(now: float | None, before: float | None, seconds: float) -> float | None:
    """Return the change of a count per second; None if a count is unknown."""
    if now is None or before is None or seconds <= 0:
        return None
    return (now - before) / seconds
