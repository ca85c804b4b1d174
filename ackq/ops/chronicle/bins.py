"""Minutes in equal parts of time, as curves show them: `bins`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ackq.ops.chronicle.minutes import MINUTE, Minute, Work


@dataclass(slots=True)
class Bin:
    """What happened within some minutes."""

    #: Its end, in seconds since the epoch, and how many seconds of it are known.
    at: float
    known: float = 0.0
    #: What the queue had at the end of the last row; None: nothing is known.
    last: Minute | None = None
    #: What happened, by name; a row that is longer is divided.
    counts: dict[str, float] = field(default_factory=dict)
    dead: dict[str, float] = field(default_factory=dict)
    work: Work = field(default_factory=Work)

    def per_second(self, name: str) -> float | None:
        """Return the speed of what is counted, in its known part; None if nothing is known."""
        return max(0.0, self.counts.get(name, 0.0)) / self.known if self.known else None

    def died(self) -> float | None:
        """Return how many messages became dead letters; None if nothing is known."""
        return sum(self.dead.values()) if self.known else None


def bins(rows: Iterable[Minute], end: float, seconds: float, number: int) -> list[Bin]:
    """Divide the last ``seconds`` before ``end`` into parts, and the rows among them.

    A part without any row is unknown: nobody recorded it. Handlers count in the part in which their
    row ends.
    """
    width = seconds / number
    first = end - seconds
    parts = [Bin(first + width * (at + 1)) for at in range(number)]
    for row in rows:
        length = max(1, row.seconds)
        begin = row.at - length
        low = max(0, int((begin - first) // width))
        high = min(number - 1, int(-((first - row.at) // width)) - 1)
        for part in parts[low : high + 1]:
            shared = min(row.at, part.at) - max(begin, part.at - width)
            if shared <= 0:
                continue
            part.known += shared
            part.last = row
            for target, counts in ((part.counts, row.counts), (part.dead, row.dead)):
                for name, count in counts.items():
                    target[name] = target.get(name, 0.0) + count * shared / length
        if high >= 0 and first < row.at <= end + MINUTE:
            parts[high].work.include(row.work)
    return parts
