"""Inspect a delay queue, and maintain its dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackq import scripts
from ackq.config import Seconds, check_integer, microseconds
from ackq.core.call import call
from ackq.core.counters import MAX_WATCH, Counters, derived, total
from ackq.core.dead_stream import read_dead
from ackq.core.effects import Arg, Operation, Request
from ackq.core.failure import parse
from ackq.core.inspection_results import DeadLetter, check_entry
from ackq.delay.messages import DelayKeys, DelaySpec, DelayStats, decode_key
from ackq.errors import ConfigurationError

#: Most dead letters that one call redrives.
CHUNK = 1000
#: Most dead letters that one call deletes: it frees their bodies, whose sizes are unknown.
DROP_CHUNK = 50
#: Most partitions whose counters one call reads. Each partition is consistent by itself.
WATCHED = 128


def stats(spec: DelaySpec) -> Operation[DelayStats]:
    """Count; see `ackq.delay.DelayQueue.stats`."""
    keys = spec.keys_of(range(len(spec.partitions)))
    request = Request((len(keys), *keys), script=scripts.load("delay/stats"), resend=True)
    stored, due, held, dead, wait = yield from call(spec, request)
    return DelayStats(
        ready=due,
        in_flight=held,
        delayed=max(0, stored - due - held),
        dead=dead,
        next_event_in=wait / 1_000_000 if wait >= 0 else None,
    )


def counters(spec: DelaySpec, window: Seconds) -> Operation[Counters]:
    """Read the counters; see `ackq.delay.DelayQueue.counters`."""
    milliseconds = max(1, microseconds(window, "window", MAX_WATCH) // 1000)
    of_parts: list[Counters] = []
    for first in range(0, len(spec.partitions), WATCHED):
        keys = spec.keys_of(range(first, min(first + WATCHED, len(spec.partitions))))
        request = Request(
            (len(keys), *keys, milliseconds), script=scripts.load("delay/watch"), resend=True
        )
        now, *parts = yield from call(spec, request)
        of_parts += (
            Counters(**derived(now, live, held, _counted(pairs))) for live, held, *pairs in parts
        )
    return total(of_parts)


def _counted(pairs: Sequence[bytes]) -> dict[bytes, int]:
    return dict(zip(pairs[::2], map(int, pairs[1::2]), strict=True))


def purge(spec: DelaySpec, dead: bool) -> Operation[int]:
    """Delete all messages; see `ackq.delay.DelayQueue.purge`."""
    keys = spec.keys_of(range(len(spec.partitions)))
    request = Request((len(keys), *keys, int(dead)), script=scripts.load("delay/purge"))
    deleted: int = yield from call(spec, request)
    return deleted


def dead_letters(
    spec: DelaySpec, wanted: int, after: str | None, partition: int | None
) -> Operation[list[DeadLetter]]:
    """Read dead letters; see `ackq.delay.DelayQueue.dead_letters`."""
    check_integer(wanted, "dead_letters", 0, 2**53)
    parts = spec.partitions if partition is None and after is None else [_part(spec, partition)]
    if after is not None:
        check_entry(after)
    letters: list[DeadLetter] = []
    for keys in parts:
        left = wanted - len(letters)
        letters += yield from read_dead(spec, keys.dead, dead_letter_of, left, after)
    return letters


def drop_dead_letters(
    spec: DelaySpec, entries: Sequence[str], partition: int | None
) -> Operation[int]:
    """Delete dead letters; see `ackq.delay.DelayQueue.drop_dead_letters`."""
    keys = _part(spec, partition)
    for entry in entries:
        check_entry(entry)
    dropped = 0
    for first in range(0, len(entries), DROP_CHUNK):
        chunk = entries[first : first + DROP_CHUNK]
        request = Request((len(keys.all()), *keys.all(), *chunk), script=scripts.load("delay/drop"))
        dropped += yield from call(spec, request)
    return dropped


def redrive(
    spec: DelaySpec, wanted: int | None, entries: Sequence[str], partition: int | None
) -> Operation[int]:
    """Make dead letters ready again; see `ackq.delay.DelayQueue.redrive`."""
    if entries:
        return (yield from _redrive_entries(spec, _part(spec, partition), entries))
    if wanted is not None:
        check_integer(wanted, "redrive", 0, 2**53)
    redriven = 0
    for keys in spec.partitions if partition is None else [_part(spec, partition)]:
        # Messages that die again meanwhile are appended, so stop at the present length.
        size: int = yield from call(spec, Request((b"XLEN", keys.dead), resend=True))
        left = size if wanted is None else min(size, wanted - redriven)
        redriven += yield from _redrive(spec, keys, size, left)
    return redriven


def _redrive_entries(spec: DelaySpec, keys: DelayKeys, entries: Sequence[str]) -> Operation[int]:
    for entry in entries:
        check_entry(entry)
    redriven = at = 0
    while at < len(entries):
        chunk = entries[at : at + CHUNK]
        request = Request(
            (len(keys.all()), *keys.all(), len(chunk), "", *chunk),
            script=scripts.load("delay/redrive"),
        )
        count, seen, _ = yield from call(spec, request)
        redriven += count
        at += seen  # one call stops at 1 MiB of bodies
    return redriven


def _redrive(spec: DelaySpec, keys: DelayKeys, size: int, wanted: int) -> Operation[int]:
    after: Arg = ""
    redriven = looked = 0
    while looked < size and redriven < wanted:
        request = Request(
            (len(keys.all()), *keys.all(), min(CHUNK, wanted - redriven), after),
            script=scripts.load("delay/redrive"),
        )
        count, seen, after = yield from call(spec, request)
        redriven += count
        looked += seen
        if not seen:
            break
    return redriven


def _part(spec: DelaySpec, partition: int | None) -> DelayKeys:
    """Return the keys of a partition, whose entries are unlike those of the others."""
    if partition is None and len(spec.partitions) > 1:
        raise ConfigurationError("entries are those of one partition: pass partition")
    check_integer(partition or 0, "partition", 0, len(spec.partitions) - 1)
    return spec.partitions[partition or 0]


def dead_letter_of(entry: Sequence[Any]) -> DeadLetter:
    fields = dict(zip(entry[1][::2], entry[1][1::2], strict=True))
    return DeadLetter(
        entry=entry[0].decode(),
        id=decode_key(fields.get(b"key", b"")),
        body=fields.get(b"body", b""),
        reason=fields.get(b"reason", b"").decode(errors="replace"),
        receive_count=_whole(fields.get(b"count", b"")),
        died_at=_whole(fields.get(b"time", b"")) / 1_000_000,
        errors=parse(fields.get(b"errors", b"")),
    )


def _whole(text: bytes) -> int:
    """Return a count or a time, or 0 if another client wrote something else."""
    try:
        number = int(text)
    except ValueError:
        return 0
    return number if 0 <= number < 2**63 else 0
