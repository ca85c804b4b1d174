"""Why messages fail: one table of the causes of several queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ackq.ops.chronicle.causes import MINUTES, Cause
from ackq.ops.chronicle.minutes import MINUTE
from ackq.ops.chronicle.reader import read_causes
from ackq.ops.kinds.kind import Redis
from ackq.ops.readings import Reading
from ackq.ops.samples import Row, arranged
from ackq.web import format

#: Most queues whose causes are read, those that fail most now first, and most causes that are
#: shown.
MAX_QUEUES, MAX_SHOWN = 200, 100


@dataclass(frozen=True, slots=True)
class Failing:
    """A cause in a queue."""

    queue: Reading
    #: The queue, or its part with the most dead letters: where to look for them.
    part: Reading
    cause: Cause
    minutes_5: int
    hour: int
    #: The points of a curve of the last hour.
    points: str


@dataclass(frozen=True, slots=True)
class Failures:
    """The causes, those that were seen most in the last 5 minutes first."""

    rows: Sequence[Failing]
    #: How many causes there are, and whether all dead letters have been counted.
    total: int
    complete: bool
    #: Queues whose causes were not read.
    left_out: int


def failures(client: Redis, rows: Sequence[Row], now: float) -> Failures:
    """Return the causes of queues in which messages fail or have failed."""
    failing = [row.reading for row in arranged(rows, "failing") if _fails(row)]
    read, left_out = failing[:MAX_QUEUES], failing[MAX_QUEUES:]
    tables = read_causes(client, read)
    failing_queues = [
        _shown(queue, cause, now)
        for queue, table in zip(read, tables, strict=True)
        for cause in table.causes
    ]
    failing_queues.sort(key=lambda each: (-each.minutes_5, -each.hour, -each.cause.last))
    complete = all(table.complete for table in tables)
    return Failures(failing_queues[:MAX_SHOWN], len(failing_queues), complete, len(left_out))


def _fails(row: Row) -> bool:
    totals = row.reading.totals
    return bool(
        row.reading.states.get("dead") or (totals and (totals.dead or totals.counts.get("nacked")))
    )


def _shown(queue: Reading, cause: Cause, now: float) -> Failing:
    newest = int(now) // MINUTE
    times = [float(minute) for minute in range(newest - MINUTES + 1, newest + 1)]
    counts = [cause.minutes.get(int(minute), 0) for minute in times]
    return Failing(
        queue,
        max(queue.parts, key=lambda part: part.states.get("dead", 0), default=queue),
        cause,
        cause.within(now, 5),
        cause.within(now, MINUTES),
        format.points(counts, times),
    )
