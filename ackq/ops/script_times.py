"""How long scripts take, as far as a server reports it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ackq import scripts
from ackq.core.effects import Operation
from ackq.ops.asking import ask

#: Entries of the slow log that are read. Redis keeps 128 by default.
READ = 128

_CALLS = re.compile(
    rb"^cmdstat_evalsha:calls=(\d+),usec=(\d+),.*?(?:failed_calls=(\d+))?\r?$", re.MULTILINE
)
_SLOWEST = re.compile(rb"^latency_percentiles_usec_evalsha:.*?p99=([\d.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SlowCall:
    """A call of one of ackq's scripts in the server's slow log."""

    script: str
    #: Its first key, such as the list of a queue. May contain any character.
    key: str
    seconds: float
    #: When it ran, in seconds since the epoch by the server's clock.
    at: float


@dataclass(frozen=True, slots=True)
class ScriptTimes:
    """All calls of scripts by EVALSHA since the server's statistics began.

    Redis does not tell scripts apart, so those of other programs are counted, too.
    """

    calls: int
    #: Mean time of a call.
    seconds: float
    failed: int
    #: Time that 99 of 100 calls did not exceed; None: the server does not measure it (before 7.0).
    p99: float | None
    #: The calls of ackq's own scripts in the slow log, newest first; None: the user may not read
    #: it.
    slow: tuple[SlowCall, ...] | None
    #: From how many seconds on a call is in the slow log; None: unknown, or nothing is.
    slow_from: float | None


def script_times() -> Operation[ScriptTimes | None]:
    """Return how long scripts take, or None if the user may not ask. 4 round trips at most."""
    stats = yield from ask(b"INFO", b"commandstats")
    if stats is None:
        return None
    matched = _CALLS.search(stats)
    calls, spent, failed = (int(group or 0) for group in matched.groups()) if matched else (0, 0, 0)
    slowest = _SLOWEST.search((yield from ask(b"INFO", b"latencystats")) or b"")
    log = yield from ask(b"SLOWLOG", b"GET", READ)
    setting = yield from ask(b"CONFIG", b"GET", b"slowlog-log-slower-than")
    limit = int(_value(setting)) if setting else -1
    return ScriptTimes(
        calls,
        spent / calls / 1e6 if calls else 0.0,
        failed,
        float(slowest[1]) / 1e6 if slowest else None,
        None if log is None else tuple(filter(None, map(_slow_call, log))),
        limit / 1e6 if limit >= 0 else None,
    )


def _slow_call(entry: Sequence[Any]) -> SlowCall | None:
    _, at, microseconds, words, *_ = entry
    if len(words) < 2 or words[0].upper() != b"EVALSHA":
        return None
    name = _names().get(words[1].lower())
    if name is None:
        return None
    key = words[3].decode(errors="backslashreplace") if words[2:3] > [b"0"] and words[3:] else ""
    return SlowCall(name, key, microseconds / 1e6, float(at))


@cache
def _names() -> dict[bytes, str]:
    return {scripts.load(name).sha: name for name in scripts.names()}


def _value(setting: Any) -> bytes:
    value: bytes = next(iter(setting.values())) if isinstance(setting, dict) else setting[1]
    return value
