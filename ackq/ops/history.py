"""The last samples of a queue: `History` collects them, and `Curves` are those of a view."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan, nan
from typing import Any

from ackq.ops.readings import COUNTED, Reading

#: Samples of a curve, and the fewest if there are more than `WITH_ALL` queues. With that many, they
#: take about 110 MB (measured; 50,000 take 220 MB).
SAMPLES, FEWEST = 60, 6
WITH_ALL = 5000
#: Most reasons of dead letters that have a curve each.
MAX_REASONS = 8

#: Values over time, oldest first; None if unknown. The last one is of the newest sample.
Series = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Counts:
    """The totals of a queue in one sample. Small, since thousands of queues have 60 each."""

    at: float
    since: float | None
    #: In the order of `COUNTED`; NaN if a total is unknown.
    values: array[float]
    #: Messages that became dead letters, by reason.
    dead: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Curves:
    """The samples of a queue that a view shows."""

    backlogs: Series = ()
    #: What leaves the queue per second; for a topic, what is published.
    speeds: Series = ()
    counts: Sequence[Counts | None] = ()
    #: Dead letters that are kept; None: the kind has none.
    dead: Series = ()

    def rates(self) -> dict[str, Series]:
        """Return the change per second of each total that is known, by its name."""
        now = self.counts[-1] if self.counts else None
        if now is None:
            return {}
        series = {
            name: self._rates([count.values[number] if count else None for count in self.counts])
            for number, name in enumerate(COUNTED)
            if not isnan(now.values[number])
        }
        return series | {
            f"dead: {reason}": self._rates(
                [count.dead.get(reason, 0) if count else None for count in self.counts]
            )
            for reason in sorted(now.dead)[:MAX_REASONS]
        }

    def _rates(self, totals: Series) -> Series:
        rates: list[float | None] = [None]
        for (before, now), (fewer, more) in zip(
            pairwise(self.counts), pairwise(totals), strict=True
        ):
            if before is None or now is None or before.since != now.since:
                rates.append(None)  # counting restarted
                continue
            speed = rate(more, fewer, now.at - before.at)
            rates.append(speed if speed is not None and speed >= 0 else None)
        return rates


class History:
    """Collects the samples of a queue."""

    def __init__(self) -> None:
        self._backlogs: deque[float] = deque()
        self._speeds: deque[float | None] = deque()
        self._counts: deque[Counts | None] = deque()
        self._dead: deque[float | None] = deque()

    def add(self, reading: Reading, speed: float | None, at: float, most: int) -> Curves:
        """Add a sample, and return the last ones.

        Args:
            reading: the figures.
            speed: what leaves the queue per second.
            at: when they were read, in seconds; used if the reading does not know it itself.
            most: how many samples to keep.
        """
        self._backlogs.append(reading.backlog)
        self._speeds.append(speed)
        self._counts.append(self._counts_of(reading, at))
        self._dead.append(reading.states.get("dead"))
        series: tuple[deque[Any], ...] = (
            self._backlogs,
            self._speeds,
            self._counts,
            self._dead,
        )
        for each in series:
            while len(each) > most:
                each.popleft()
        return Curves(
            tuple(self._backlogs), tuple(self._speeds), tuple(self._counts), tuple(self._dead)
        )

    def _counts_of(self, reading: Reading, at: float) -> Counts | None:
        totals = reading.totals
        if totals is None:
            return None
        before = self._counts[-1] if self._counts else None
        values = array("d", [totals.counts.get(name, nan) for name in COUNTED])
        # Most queues are the same as before; their samples share the dictionary.
        dead = before.dead if before is not None and before.dead == totals.dead else totals.dead
        return Counts(totals.at if totals.at is not None else at, totals.since, values, dead)


def kept_of(queues: int) -> int:
    """Return how many samples of each queue are kept, so that all of them fit into memory."""
    return min(SAMPLES, max(FEWEST, SAMPLES * WITH_ALL // max(1, queues)))


def rate(now: float | None, before: float | None, seconds: float) -> float | None:
    """Return the change of a count per second; None if a count is unknown."""
    if now is None or before is None or seconds <= 0:
        return None
    return (now - before) / seconds
