"""Look for troubles: `Attention` reads what the figures of an overview lack."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from typing import Any

import redis
from redis.exceptions import NoPermissionError

from ackq.core.client import Closable
from ackq.core.effects import Operation, Request
from ackq.core.failure import parse
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.core.io.together import run_all
from ackq.errors import EXPECTED
from ackq.membership.shards import whole
from ackq.ops.asking import reply
from ackq.ops.attention.marks import DEAD_WITHIN, Marks
from ackq.ops.attention.model import (
    Details,
    Key,
    Limits,
    Trouble,
    arranged,
    fallen,
    room_in,
    troubles_of_queue,
    troubles_of_server,
)
from ackq.ops.chronicle import causes
from ackq.ops.chronicle.minutes import MINUTE, recent
from ackq.ops.chronicle.store import history_key
from ackq.ops.operation_log import OperationLog
from ackq.ops.overview import Snapshot
from ackq.ops.readings import Reading
from ackq.ops.worker_info import by_worker, spec
from ackq.queue import registry, schedules

#: Seconds between two readings of workers, schedules, causes and operations.
DETAILS_EVERY = 10.0
#: Most queues whose past is read after one reading, those with messages first, and most whose
#: details are; the details of others follow later.
MOST = 300
_NONE = Details()


class Attention(Closable):
    """Finds troubles in the readings of an overview. Not for several threads at once.

    It never raises: what this user may not read, and what cannot be read now, is left out.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        limits: Limits | None = None,
        *,
        once: bool = False,
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or of any node of the cluster.
            limits: when troubles begin. Defaults to those in the environment variable
                ACKQ_LIMITS, such as ``oldest=60 dead=10``; others are those of `Limits`.
            once: for a command that looks once, and not again and again: what can be known at
                once is not waited for. Defaults to False.

        Raises:
            ConfigurationError: ACKQ_LIMITS has a limit that does not exist.
        """
        self._limits = limits or Limits.parse(os.environ.get("ACKQ_LIMITS", "").split())
        self._once = once
        self._route = route_of(client, b"")
        self._log = OperationLog(client)
        self._steady = Steady(replace(self._limits, unreadable=-1.0) if once else self._limits)
        self._marks: dict[tuple[str, str], Marks] = {}
        self._details: dict[tuple[str, str], Details] = {}
        self._looked = False
        self._due, self._first = 0.0, 0
        #: What this user may not read. The server logs each denial.
        self._denied: set[str] = set()

    def look(self, snapshot: Snapshot) -> tuple[Trouble, ...]:
        """Return what needs a person now, the worst first."""
        now = snapshot.at if snapshot.at is not None else time.time()
        self._advance(snapshot, now)
        if snapshot.up and time.monotonic() >= self._due:
            self._due = time.monotonic() + DETAILS_EVERY
            self._read_details(snapshot.queues, now)
        infos = [each.info for each in snapshot.servers if each.info]
        room = room_in(infos, snapshot.queues)
        found = [
            trouble
            for each in snapshot.servers
            for trouble in troubles_of_server(each.address, each.problem, each.up, each.info)
        ]
        for reading in snapshot.queues:
            key = (reading.kind, reading.name)
            marks, details = self._marks[key], self._details.get(key, _NONE)
            found += troubles_of_queue(reading, marks, details, self._limits, now, room, self._once)
        return tuple(arranged(self._steady.settle(found, now)))

    def _advance(self, snapshot: Snapshot, now: float) -> None:
        unknown = [each for each in snapshot.queues if (each.kind, each.name) not in self._marks]
        unknown.sort(key=lambda each: each.empty)
        recorded = unknown[:MOST] if "past" not in self._denied else []
        keys = [history_key(each.kind, each.name) for each in recorded]
        pasts = self._all([("past", key, recent(key, now)) for key in keys])
        for reading, past in zip_longest(unknown, pasts):
            marks = self._marks[reading.kind, reading.name] = Marks()
            if isinstance(past, tuple):
                marks.include(*past)
        known = set()
        for reading in snapshot.queues:
            known.add(key := (reading.kind, reading.name))
            marks = self._marks[key]
            at = reading.totals.at if reading.totals and reading.totals.at is not None else now
            marks.advance(reading, at, new=self._looked and marks.at is None)
        if all(each.up for each in snapshot.servers):
            self._looked = self._looked or snapshot.complete
            for gone in self._marks.keys() - known:
                del self._marks[gone]
                self._details.pop(gone, None)

    def _read_details(self, queues: Sequence[Reading], now: float) -> None:
        if not queues:
            return
        self._first = self._first if self._first < len(queues) else 0
        some = queues[self._first : self._first + MOST]
        self._first += MOST
        interrupted: dict[tuple[str, str], dict[str, float]] = {}
        with suppress(*EXPECTED):
            for job in self._log.running():
                if not job.alive:
                    about = interrupted.setdefault((job.entry.kind, job.entry.name), {})
                    about[job.entry.what] = job.entry.at
        reads = [(each, read) for each in some for read in self._reads(each, now)]
        results = self._all([read for _, read in reads])
        parts: dict[tuple[str, str], dict[str, Any]] = {}
        for (each, (name, _, _)), result in zip(reads, results, strict=True):
            if not isinstance(result, Exception):
                parts.setdefault((each.kind, each.name), {})[name] = result
        self._read_ends(parts)
        for each in some:
            key = (each.kind, each.name)
            read = parts.get(key, {})
            since = read.pop("paused", None)
            if since is not None and each.paused:
                self._marks[key].paused_since = since
            self._details[key] = Details(**read, interrupted=interrupted.get(key, {}))

    def _read_ends(self, parts: Mapping[tuple[str, str], dict[str, Any]]) -> None:
        """Add how the message that most crashed workers of a queue had ended its process."""
        known = [
            (part, spec(name).keys.errors, id)
            for (kind, name), part in parts.items()
            if kind == "list" and "end" not in self._denied
            for id, _ in fallen(part.get("workers", ()))[1].most_common(1)
        ]
        ends = self._all([("end", key, _end(key, id)) for _, key, id in known])
        for (part, _, _), end in zip(known, ends, strict=True):
            if isinstance(end, str):
                part["end"] = end

    def _reads(self, reading: Reading, now: float) -> list[tuple[str, bytes, Operation[Any]]]:
        """Return what to read of a queue: the name in `Details`, a key, and the operation."""
        reads: list[tuple[str, bytes, Operation[Any]]] = []
        if self._marks[reading.kind, reading.name].new_dead(now)[0]:
            key = history_key(reading.kind, reading.name)
            reads.append(("cause", key, _cause(key, now)))
        if reading.kind not in ("list", "sharded"):
            return reads
        first = spec(reading.parts[0].name if reading.parts else reading.name)
        listed = spec(whole(reading.name) if reading.kind == "sharded" else reading.name)
        if reading.workers:
            reads.append(("workers", listed.keys.ready, _workers(listed)))
        if reading.paused:
            reads.append(("paused", first.keys.ready, _paused(first.keys.paused)))
        if reading.kind == "list":
            reads.append(("late", listed.keys.ready, _late(listed, now)))
        return [each for each in reads if each[0] not in self._denied]

    def _all(self, reads: Sequence[tuple[str, bytes, Operation[Any]]]) -> list[Any]:
        try:
            results = run_all([(Driver(self._route.beside(key)), each) for _, key, each in reads])
        except (redis.RedisError, OSError) as error:
            return [error for _ in reads]
        for (name, _, _), result in zip(reads, results, strict=True):
            if isinstance(result, NoPermissionError):
                self._denied.add(name)
        return results

    def close(self) -> None:
        """Close the connections, and forget what happened."""
        self._route.close()
        self._log.close()
        self._marks, self._details, self._looked, self._due = {}, {}, False, 0.0


def of_queue(troubles: Sequence[Trouble], key: tuple[str, str]) -> list[Trouble]:
    """Return the troubles of a queue, given its kind and name."""
    return [each for each in troubles if each.key[1:] == key]


def _workers(listed: Any) -> Operation[Any]:
    return by_worker((yield from registry.entries(listed)))


def _end(key: bytes, id: str) -> Operation[str]:
    """Return how the message ended the process of its last delivery; empty if it is unknown."""
    (lines,) = yield from reply(b"HMGET", key, id)
    failures = parse(lines or b"")
    ended = failures and failures[-1].type == ChildProcessError.__name__
    return failures[-1].cause if ended else ""


def _paused(key: bytes) -> Operation[float | None]:
    """Return when a queue was paused; None: it was not recorded."""
    text: bytes = (yield Request((b"GET", key), resend=True)) or b""
    with suppress(ValueError):
        return datetime.fromisoformat(text.decode()).timestamp()
    return None


def _late(listed: Any, now: float) -> Operation[dict[str, float]]:
    late = {}
    for each in (yield from schedules.read(listed)):
        due = each.timetable.after(round(each.last * 1_000_000)) / 1_000_000
        if not each.paused and due < now:
            late[each.name] = due
    return late


def _cause(key: bytes, now: float) -> Operation[str]:
    table = yield from causes.read(key)
    within = round(DEAD_WITHIN / MINUTE)
    most = max(table.causes, key=lambda one: one.within(now, within) * bool(one.dead), default=None)
    return most.cause if most is not None and most.within(now, within) else ""


class Steady:
    """What goes on, from one look to the next. A trouble keeps its begin until it is over."""

    def __init__(self, limits: Limits) -> None:
        """Prepare.

        Args:
            limits: of them, those for which a server cannot be read, and until a trouble is over.
        """
        self._limits = limits
        #: What goes on, and when it was last seen.
        self._seen: dict[Key, tuple[Trouble, float]] = {}

    def settle(self, found: Iterable[Trouble], now: float) -> list[Trouble]:
        """Return what goes on.

        While a server cannot be read, nothing is known of its queues: their troubles go on.

        Args:
            found: what is seen.
            now: the time in seconds since the epoch, which may be set back.
        """
        for trouble in found:
            begun, _ = self._seen.get(trouble.key, (None, 0.0))
            since = now if trouble.since is None else trouble.since
            if begun is not None and begun.since is not None:
                since = min(since, begun.since)
            self._seen[trouble.key] = replace(trouble, since=since), now
        blind = any(
            key.kind in ("unreadable", "loading") and at == now
            for key, (_, at) in self._seen.items()
        )
        for key, (trouble, at) in [*self._seen.items()]:
            if at != now and blind and key.queue:
                self._seen[key] = trouble, now
            elif at != now and not 0 <= now - at < self._limits.calm:
                del self._seen[key]
        return [trouble for trouble, _ in self._seen.values() if self._lasts(trouble, now)]

    def _lasts(self, trouble: Trouble, now: float) -> bool:
        limit = self._limits.unreadable
        if trouble.key.kind != "unreadable":
            return True
        return bool(limit) and now - (trouble.since or now) >= limit
