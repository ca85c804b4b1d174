"""What happened to a queue lately, as far as troubles depend on it: `Marks`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ackq.ops.chronicle.minutes import MINUTE, Minute, differences
from ackq.ops.readings import Reading, Totals

#: Seconds within which new dead letters are counted, and for which backlogs are remembered.
DEAD_WITHIN, GROWTH_WITHIN = 900.0, 1800.0
#: Seconds after which a queue from which nothing was delivered no longer fails.
FAILED_WITHIN = 900.0
#: Seconds over which a backlog has to grow, and in how many equal steps.
GROWTH_OVER, GROWTH_STEPS = 900.0, 3


@dataclass(slots=True)
class Marks:
    """Built from the minutes that are recorded of a queue, then from one reading after the other.

    All times are the server's, in seconds since the epoch.
    """

    #: When the queue was last looked at, and its totals then.
    at: float | None = None
    totals: Totals | None = None
    #: Deliveries that failed since the last ack, when the first of them began to fail, and when the
    #: last one was seen.
    failed: int = 0
    failing_since: float | None = None
    failed_at: float = 0.0
    #: Since when messages have been ready while none was taken; None: some are taken, none is
    #: ready, or nobody counts what is taken.
    waiting_since: float | None = None
    #: Whether the wait began when nobody looked, so that its length is only a lower limit.
    unseen: bool = True
    paused_since: float | None = None
    dead_kept: int | None = None
    _dead: list[tuple[float, int]] = field(default_factory=list)
    _backlogs: list[tuple[float, int]] = field(default_factory=list)

    def include(self, minutes: Iterable[Minute], last: Totals | None) -> None:
        """Begin with the recorded minutes, oldest first, and the totals at the end of the last."""
        for row in minutes:
            self._step(row.at - row.seconds, row.at, row.counts, row.dead)
            self._levels(row.at, row.counts.get("taken", 0), row.states[0], row.backlog)
            self.at = row.at
        if last is not None and last.at is not None:
            self.at, self.totals = last.at, last

    def advance(self, reading: Reading, at: float, new: bool = False) -> None:
        """Add a reading.

        Args:
            reading: the figures.
            at: the server's time.
            new: whether the queue appeared since somebody watches, so that all its dead letters
                are new.
        """
        totals, before = reading.totals, self.totals
        dead = reading.states.get("dead", 0)
        since = self.at if self.at is not None else at
        taken: int | None = None
        if totals is not None:
            restarted = before is not None and before.since != totals.since
            if before is None or restarted:
                fresh = new or restarted
                before = Totals(
                    totals.since, {} if fresh else totals.counts, {} if fresh else totals.dead
                )
                since = max(since, totals.since or since)
            if totals.counts != before.counts or totals.dead != before.dead:
                counts = differences(totals.counts, before.counts)
                self._step(since, at, counts, differences(totals.dead, before.dead))
                taken = counts.get("taken", 0)
            elif "taken" in totals.counts:
                taken = 0
            self.totals = totals
        elif self.dead_kept is not None or new:
            self._note_dead(at, dead - (self.dead_kept or 0))
        self.dead_kept = dead
        self._levels(at, taken, takeable(reading), reading.backlog)
        self.paused_since = (self.paused_since or at) if reading.paused else None
        self.at = at

    def _step(
        self, begin: float, end: float, counts: Mapping[str, int], dead: Mapping[str, int]
    ) -> None:
        failed = counts.get("nacked", 0) + counts.get("returned", 0) + dead.get("rejected", 0)
        if counts.get("acked", 0) > 0:
            self.failed, self.failing_since = 0, None
        elif failed > 0:
            self.failed, self.failed_at = self.failed + failed, end
            self.failing_since = begin if self.failing_since is None else self.failing_since
        self._note_dead(end, sum(dead.values()))

    def _note_dead(self, at: float, number: int) -> None:
        if number > 0:
            self._dead.append((at, number))

    def _levels(self, at: float, taken: int | None, ready: int, backlog: int) -> None:
        if taken is None or not ready:
            self.waiting_since = None
        elif taken > 0 or self.waiting_since is None:
            self.waiting_since, self.unseen = at, self.at is None
        while self._backlogs and self._backlogs[0][0] < at - GROWTH_WITHIN:
            del self._backlogs[0]
        if not self._backlogs or at - self._backlogs[-1][0] >= MINUTE or at < self._backlogs[-1][0]:
            self._backlogs.append((at, backlog))

    def new_dead(self, now: float) -> tuple[int, float]:
        """Return the new dead letters within `DEAD_WITHIN`, and when the first of them was seen."""
        self._dead = [each for each in self._dead if now - each[0] < DEAD_WITHIN]
        return sum(number for _, number in self._dead), self._dead[0][0] if self._dead else now

    def growth(self, now: float) -> tuple[float, float] | None:
        """Return how many messages a second the backlog grows by, and since when; None: none.

        It grows if it was larger at each of some times than at the one before.
        """
        known = [each for each in self._backlogs if now - each[0] <= GROWTH_WITHIN]
        if not known or now - known[0][0] < GROWTH_OVER:
            return None
        seen = [
            known[round((len(known) - 1) * step / GROWTH_STEPS)] for step in range(GROWTH_STEPS + 1)
        ]
        if any(later[1] <= earlier[1] for earlier, later in pairwise(seen)):
            return None
        (began, fewest), (ended, most) = seen[0], seen[-1]
        return (most - fewest) / max(1.0, ended - began), began


def takeable(reading: Reading) -> int:
    """Return how many ready messages a consumer could take: none whose groups have to wait."""
    ready = reading.states.get("ready", 0)
    groups = reading.groups
    return ready if groups is None or groups.ready else max(0, ready - groups.moved_aside)
