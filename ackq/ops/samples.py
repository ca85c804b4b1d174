"""Readings of all queues, one after the other: rates, order, and how often to read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ackq.ops import history
from ackq.ops.attention.model import Trouble
from ackq.ops.attention.watch import Attention
from ackq.ops.figures import by_state, count, rate, span
from ackq.ops.history import Curves, History
from ackq.ops.overview import Overview, Snapshot
from ackq.ops.readings import Reading

#: The counts whose rates are reported.
COUNTED = ("pushed", "taken", "acked", "returned")
#: Seconds between two readings for each queue. Reading a busy one costs Redis 60 to 95 µs, so that
#: readings cost it less than 1 % of a core, however many queues there are.
PER_QUEUE = 0.012

#: Messages per second, by the names in `COUNTED`; None if unknown.
Rates = Mapping[str, float | None]
UNKNOWN: Rates = dict.fromkeys(COUNTED)
NO_CURVES = Curves()
#: A queue's kind and name.
Key = tuple[str, str]
#: How queues can be sorted.
Sort = Literal["name", "kind", "backlog", "dead", "rate", "oldest", "workers", "failing"]


@dataclass(frozen=True, slots=True)
class Row:
    """A queue in a sample."""

    reading: Reading
    rates: Rates
    curves: Curves = NO_CURVES
    #: What needs a person, the worst first.
    troubles: Sequence[Trouble] = ()

    @property
    def key(self) -> Key:
        """Its kind and name."""
        return self.reading.kind, self.reading.name


@dataclass(frozen=True, slots=True)
class Sample:
    """All queues at one time."""

    snapshot: Snapshot
    rows: Sequence[Row]
    #: When it was taken, by this machine's clock, in seconds since the epoch.
    at: float = 0.0
    #: When this one and those before were taken, oldest first, by a monotonic clock.
    times: Sequence[float] = ()
    #: What needs a person, of all queues and servers, the worst first.
    troubles: Sequence[Trouble] = ()
    #: Commands per second of all servers; None if unknown.
    commands: float | None = None
    #: Why newer figures could not be read, or those of some servers.
    trouble: str = ""
    #: Whether no server could be read since: these are the last figures, if there are any.
    outdated: bool = False

    def row(self, kind: str, name: str) -> Row | None:
        """Return a queue, or None if it is not there."""
        return next((row for row in self.rows if row.key == (kind, name)), None)


class Sampler:
    """Takes samples, and remembers the last one for rates, and the last ones for curves.

    Not for several threads at once.
    """

    def __init__(
        self, overview: Overview, attention: Attention | None = None, curves: bool = False
    ) -> None:
        """Prepare; nothing is read.

        Args:
            overview: reads the queues.
            attention: finds what needs a person. Defaults to None: nothing is looked for.
            curves: also collect the curves of the queues. Defaults to False.
        """
        self._overview = overview
        self._attention = attention
        self._history: dict[Key, History] | None = {} if curves else None
        self._times: deque[float] = deque(maxlen=history.SAMPLES)
        self._last: Snapshot | None = None
        self._last_at = 0.0
        #: Samples of each queue that are kept.
        self._kept = history.SAMPLES

    def take(self) -> Sample:
        """Read all queues.

        Raises:
            NoPermissionError: no queues were named, and the user may not search for them.
        """
        snapshot, last = self._overview.read(), self._last
        now = time.monotonic()
        seconds = now - self._last_at
        readings = {(queue.kind, queue.name): queue for queue in last.queues} if last else {}
        self._times.append(now)
        if snapshot.up:  # while all servers are down, there is nothing to compare with later
            self._last, self._last_at = snapshot, now
        self._kept = history.kept_of(len(snapshot.queues))
        troubles = self._attention.look(snapshot) if self._attention is not None else ()
        of: dict[Key, list[Trouble]] = {}
        for trouble in troubles:
            of.setdefault((trouble.key.queue_kind, trouble.key.queue), []).append(trouble)
        rows = []
        for queue in snapshot.queues:
            key = (queue.kind, queue.name)
            rows.append(self._row(queue, readings.get(key), seconds, of.get(key, ())))
        if self._history is not None and snapshot.up:
            kept = {row.key for row in rows}
            self._history = {key: curve for key, curve in self._history.items() if key in kept}
        commands = _commands(snapshot, last, seconds)
        return Sample(snapshot, rows, time.time(), tuple(self._times), troubles, commands)

    def _row(
        self,
        now: Reading,
        before: Reading | None,
        seconds: float,
        troubles: Sequence[Trouble],
    ) -> Row:
        speeds = rates(now, before, seconds)
        if self._history is None:
            return Row(now, speeds, troubles=troubles)
        left = speeds["acked"] if speeds["acked"] is not None else speeds["taken"]
        speed = speeds["pushed"] if now.kind == "topic" else left
        samples = self._history.setdefault((now.kind, now.name), History())
        curves = samples.add(now, speed, self._times[-1], self._kept)
        return Row(now, speeds, curves, troubles)

    def close(self) -> None:
        """Close the connections, and forget the samples."""
        self._overview.close()
        if self._attention is not None:
            self._attention.close()
        self._last = None
        self._times.clear()
        if self._history is not None:
            self._history = {}


def arranged(rows: Sequence[Row], sort: Sort, reverse: bool = False) -> list[Row]:
    """Return the rows in order: names from a to z, or the largest first."""
    if sort in ("name", "kind"):
        order: Callable[[Row], object] = lambda row: row.key if sort == "kind" else row.key[::-1]  # noqa: E731
    else:
        order = lambda row: (-weight(row, sort), row.key[::-1])  # noqa: E731
    return sorted(rows, key=order, reverse=reverse)  # type: ignore[arg-type]


def weight(row: Row, sort: Sort) -> float:
    """Return what to sort a queue by, the largest first."""
    reading = row.reading
    if sort == "backlog":
        return reading.backlog
    if sort == "dead":
        return reading.states.get("dead", 0)
    if sort == "workers":
        return reading.workers or 0
    if sort == "failing":
        worst = {"critical": 1e15, "warning": 1e12, "": 0.0}
        return worst[row.troubles[0].severity if row.troubles else ""] + reading.backlog
    if sort == "rate":
        return max((rate for rate in row.rates.values() if rate is not None), default=0.0)
    return max(reading.overdue or 0.0, reading.oldest_ready or 0.0, reading.lease_age or 0.0)


def _commands(snapshot: Snapshot, before: Snapshot | None, seconds: float) -> float | None:
    if before is None or len(before.servers) != len(snapshot.servers) or seconds <= 0:
        return None
    passed = 0
    for now, last in zip(snapshot.servers, before.servers, strict=True):
        if now.commands is None or last.commands is None or now.commands < last.commands:
            return None
        passed += now.commands - last.commands
    return passed / seconds


def rates(now: Reading, before: Reading | None, seconds: float) -> Rates:
    """Return what happened to messages per second between two readings of a queue.

    A rate is unknown if counting restarted in between, and a rate of pushes also if other
    clients removed messages with their own commands.

    Args:
        now: the later reading.
        before: the earlier one; None: there is none.
        seconds: the time between them, if the readings do not know it themselves.
    """
    if not (before and before.totals and now.totals) or before.totals.since != now.totals.since:
        return UNKNOWN
    if now.totals.at is not None and before.totals.at is not None:
        seconds = now.totals.at - before.totals.at
    speeds: dict[str, float | None] = {}
    for name in COUNTED:
        each = history.rate(now.totals.counts.get(name), before.totals.counts.get(name), seconds)
        speeds[name] = each if each is not None and each >= 0 else None
    return speeds


def cells(row: Row) -> dict[str, str]:
    """Return the figures of a queue as texts, by name."""
    reading = row.reading
    late = f"{span(reading.overdue)} late" if reading.overdue else ""
    return {
        **{state: count(number) for state, number in by_state(reading).items()},
        **{name: rate(number) for name, number in row.rates.items()},
        "oldest": span(reading.oldest_ready),
        "overdue": late,
        "lease": late or span(reading.lease_age),
        "workers": count(reading.workers),
    }


def interval_for(queues: int, shortest: float) -> float:
    """Return the seconds between two readings of ``queues`` queues, at least ``shortest``."""
    return max(shortest, queues * PER_QUEUE)
