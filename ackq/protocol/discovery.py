"""Finds queues, and reads what a server counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from redis.exceptions import NoPermissionError

from ackq.config import QueueConfig
from ackq.errors import KeyTypeError, QueueNameError
from ackq.keys import SUFFIXES, QueueKeys, check_name
from ackq.message import QueueStats
from ackq.protocol import inspection
from ackq.protocol.spec import QueueSpec
from ackq.protocol.steps import Request, Steps

#: Keys that one SCAN looks at.
SCANNED = 1000
#: What the names of side keys end in, for the server to sift out.
_PATTERN = b"*[A-Z][A-Z][A-Z][DFPST]"


@dataclass(frozen=True, slots=True)
class Sample:
    """What the queues and their server counted at one time of the server's clock."""

    at: float
    #: Commands that the server has answered since it started; None where it may not be asked.
    commands: int | None
    queues: dict[str, QueueStats]


def scan(cursor: bytes) -> Steps[tuple[bytes, set[str]]]:
    """Look at the next `SCANNED` keys; return the new cursor, and queues whose keys are there.

    A list that no consumer ever took from has no side keys: it is any list, and not found.
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


def sample(named: Sequence[str], found: Sequence[str]) -> Steps[Sample]:
    """Count each queue.

    Args:
        named: that were asked for; one that cannot be counted is an error.
        found: by `scan`; one that is something else, or of others, is left out.
    """
    queues = {}
    for name in (*named, *found):
        try:
            spec = QueueSpec(name, QueueKeys.of(name), QueueConfig())
            queues[name] = yield from inspection.stats(spec)
        except (KeyTypeError, NoPermissionError):
            if name in named:
                raise
    commands = yield from _commands()
    time = yield Request((b"TIME",), resend=True)
    return Sample(int(time[0]) + int(time[1]) / 1_000_000, commands, queues)


def _commands() -> Steps[int | None]:
    try:
        info: bytes = yield Request((b"INFO", b"stats"), resend=True)
    except NoPermissionError:
        return None
    counted = re.search(rb"^total_commands_processed:(\d+)", info, re.MULTILINE)
    return int(counted[1]) if counted else None


def rate(now: float | None, before: float | None, seconds: float) -> float | None:
    """Return by how much a count changed in a second; None where one of them is not known."""
    if now is None or before is None or seconds <= 0:
        return None
    return (now - before) / seconds
