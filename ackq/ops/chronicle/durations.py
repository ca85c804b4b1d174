"""How long handlers took: counts in buckets, and the quantiles that follow from them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Upper limits of the buckets of durations, in seconds. A last one holds what took longer.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


@dataclass(slots=True)
class Durations:
    """How many handlers took as long as each bucket says, and no longer than the one before."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    @classmethod
    def of(cls, counts: Sequence[int]) -> Durations:
        """Return durations from counts whose last zeros may be missing."""
        known = list(counts)[: len(BUCKETS) + 1]
        return cls(known + [0] * (len(BUCKETS) + 1 - len(known)))

    def add(self, seconds: float) -> None:
        """Count one handler."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1

    def include(self, other: Durations) -> None:
        """Add those of others."""
        self.counts = [one + more for one, more in zip(self.counts, other.counts, strict=True)]

    def trimmed(self) -> list[int]:
        """Return the counts without the last zeros."""
        last = max((at for at, count in enumerate(self.counts, 1) if count), default=0)
        return self.counts[:last]

    def quantile(self, share: float) -> float | None:
        """Return the seconds within which this share of handlers ended; None: there were none.

        Interpolated within its bucket. What took longer than the last limit counts as that limit.
        """
        total = sum(self.counts)
        if not total:
            return None
        rank, before = share * total, 0
        for at, count in enumerate(self.counts[:-1]):
            if count and before + count >= rank:
                low = BUCKETS[at - 1] if at else 0.0
                return low + (BUCKETS[at] - low) * (rank - before) / count
            before += count
        return BUCKETS[-1]
