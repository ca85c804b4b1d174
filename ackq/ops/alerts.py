"""Which alerts begin and end, from one reading of the queues to the next: `Alerts`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ackq.ops.figures import span
from ackq.ops.overview import Snapshot
from ackq.ops.readings import Reading

Name = Literal["dead", "oldest", "no_worker", "unreadable"]

#: Seconds within which new dead letters are counted, and without any until the alert ends.
WINDOW = 900.0
#: Seconds after which an alert that goes on is sent again.
REPEAT = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Rules:
    """When alerts begin. None: never."""

    #: New dead letters within `WINDOW`.
    dead: int | None = 1
    #: Age of the oldest ready message in seconds.
    oldest: float | None = 600.0
    #: Seconds in which a queue has a backlog and no worker, and nothing is taken from it.
    no_worker: float | None = 600.0
    #: Seconds for which a server cannot be read.
    unreadable: float | None = 120.0


class Key(NamedTuple):
    """What an alert is about. The queue is empty if it is about servers."""

    alert: Name
    kind: str
    queue: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that begins, goes on or ends."""

    key: Key
    firing: bool
    #: The number that it is about: dead letters, or seconds.
    value: float
    #: When it began, in seconds since the epoch.
    since: float
    text: str


class Alerts:
    """Compares readings. Not for several threads at once."""

    def __init__(self, rules: Rules) -> None:
        """Prepare.

        Args:
            rules: when alerts begin.
        """
        self._rules = rules
        #: What fires, and when it was last sent.
        self._firing: dict[Key, tuple[Alert, float]] = {}
        self._dead: dict[tuple[str, str], _Dead] = {}
        #: Since when nobody takes from a queue, and what had been taken by then.
        self._starved: dict[tuple[str, str], tuple[float, int | None]] = {}
        self._unreadable_since: float | None = None

    def look(self, snapshot: Snapshot, now: float) -> list[Alert]:
        """Return the alerts that begin, that are to be sent again, and that end.

        While a server cannot be read, nothing is known of its queues: their alerts stay as they
        are.

        Args:
            snapshot: a reading of all queues.
            now: its time, in seconds since the epoch.
        """
        problems = {key: (value, text) for key, value, text in self._found(snapshot, now)}
        changes = []
        for key, (value, text) in problems.items():
            begun, sent = self._firing.get(key, (None, 0.0))
            alert = Alert(key, True, value, begun.since if begun else now, text)
            again = begun is None or now - sent >= REPEAT
            self._firing[key] = alert, now if again else sent
            changes += [alert] * again
        down = not all(server.up for server in snapshot.servers)
        for key in [*self._firing.keys() - problems.keys()]:
            if down and key.alert != "unreadable":
                continue
            alert, _ = self._firing.pop(key)
            changes.append(Alert(key, False, 0.0, alert.since, f"ended: {alert.text}"))
        return changes

    def _found(self, snapshot: Snapshot, now: float) -> Iterator[tuple[Key, float, str]]:
        yield from self._find_unreadable(snapshot, now)
        for reading in snapshot.queues:
            yield from self._find_dead(reading, now)
            if reading.paused:
                continue
            yield from self._find_old(reading)
            yield from self._find_starved(reading, now)

    def _find_unreadable(self, snapshot: Snapshot, now: float) -> Iterator[tuple[Key, float, str]]:
        down = [server.address for server in snapshot.servers if not server.up]
        if not down:
            self._unreadable_since = None
            return
        if self._unreadable_since is None:
            self._unreadable_since = now
        seconds, limit = now - self._unreadable_since, self._rules.unreadable
        if limit is not None and seconds >= limit:
            text = f"{', '.join(down)} cannot be read for {span(seconds)}"
            yield Key("unreadable", "", ""), seconds, text

    def _find_dead(self, reading: Reading, now: float) -> Iterator[tuple[Key, float, str]]:
        counted = self._dead.setdefault((reading.kind, reading.name), _Dead())
        new = counted.count(reading, now)
        if self._rules.dead is not None and new >= self._rules.dead:
            letters = "dead letter" if new == 1 else "dead letters"
            text = f"{reading.name}: {new:,} new {letters} within {span(WINDOW)}"
            yield Key("dead", reading.kind, reading.name), new, text

    def _find_old(self, reading: Reading) -> Iterator[tuple[Key, float, str]]:
        age, limit = reading.oldest_ready, self._rules.oldest
        if limit is not None and age is not None and age >= limit:
            text = f"{reading.name}: the oldest message has waited for {span(age)}"
            yield Key("oldest", reading.kind, reading.name), age, text

    def _find_starved(self, reading: Reading, now: float) -> Iterator[tuple[Key, float, str]]:
        """Find a queue with a backlog from which no worker takes, nor a consumer without one."""
        queue = (reading.kind, reading.name)
        taken = reading.totals.counts.get("taken") if reading.totals else None
        if reading.kind not in ("list", "sharded") or not reading.backlog or reading.workers != 0:
            self._starved.pop(queue, None)
            return
        since, before = self._starved.setdefault(queue, (now, taken))
        if taken != before:
            since = now
            self._starved[queue] = now, taken
        limit = self._rules.no_worker
        if limit is not None and now - since >= limit:
            waiting = f"{reading.backlog:,} messages and no worker"
            text = f"{reading.name}: {waiting} for {span(now - since)}"
            yield Key("no_worker", *queue), now - since, text


class _Dead:
    """Counts the new dead letters of a queue."""

    def __init__(self) -> None:
        self._last: tuple[float | None, int] | None = None
        self._new: deque[tuple[float, int]] = deque()

    def count(self, reading: Reading, now: float) -> int:
        """Return how many there are within `WINDOW`. Those of the first reading are old."""
        since, total = None, reading.states.get("dead", 0)
        if reading.totals is not None:
            since, total = reading.totals.since, sum(reading.totals.dead.values())
        if self._last is not None:
            begun, before = self._last
            grown = total - before if begun == since else total  # counting began again
            if grown > 0:
                self._new.append((now, grown))
        self._last = since, total
        while self._new and now - self._new[0][0] >= WINDOW:
            self._new.popleft()
        return sum(each for _, each in self._new)
