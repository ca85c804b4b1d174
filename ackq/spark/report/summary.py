"""What a report says, counted by Spark: as many numbers as a page can show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from ackq.spark.report.messages import Overview

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Widths that a bar of the picture over time may have, in seconds, and how many bars at most.
WIDTHS = (60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
BARS = 72
#: Ages of dead letters: up to so many seconds, and what the column is called.
AGES = ((3600, "< 1 h"), (6 * 3600, "1-6 h"), (86_400, "6-24 h"),
        (3 * 86_400, "1-3 d"), (7 * 86_400, "3-7 d"), (float("inf"), "> 7 d"))  # fmt: skip
#: Reasons that are told apart; the rest is summed up.
REASONS = 7
OTHER = "other reasons"
NONE = "no reason"


@dataclass(frozen=True, slots=True)
class Failure:
    """The dead letters of one queue with one reason."""

    queue: str
    reason: str
    count: int
    first: datetime
    last: datetime
    #: Receives of the one that was tried most often.
    receives: int
    #: The latest, as `ackq dead show` takes it.
    entry: str


@dataclass(frozen=True, slots=True)
class Held:
    """What is in flight of one queue."""

    queue: str
    count: int
    receives: int
    #: When the first lease ends, and the last.
    first: datetime
    last: datetime


@dataclass(slots=True)
class Summary:
    """The numbers of a report."""

    seen: Overview
    failures: list[Failure] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    #: Width of a bar over time, in seconds; (start of the bar, reason) -> dead letters.
    width: int = WIDTHS[0]
    over_time: Counter[tuple[datetime, str]] = field(default_factory=Counter)
    #: (queue, name of the age) -> dead letters.
    ages: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def reasons(self) -> list[str]:
        """The reasons that are told apart, the most frequent first, and the rest as `OTHER`."""
        counted: Counter[str] = Counter()
        for each in self.failures:
            counted[each.reason] += each.count
        shown = [reason for reason, _ in counted.most_common(REASONS)]
        return shown if len(counted) <= REASONS else [*shown, OTHER]

    @property
    def dead(self) -> int:
        """All dead letters."""
        return sum(each.count for each in self.failures)

    @property
    def in_flight(self) -> int:
        """All messages in flight."""
        return sum(each.count for each in self.held)


def summarise(rows: DataFrame, seen: Overview) -> Summary:
    """Count the ``rows`` of `messages`."""
    summary = Summary(seen)
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        dead = rows.where("state = 'dead'").withColumn(
            "reason", F.when(F.col("reason") != "", F.col("reason")).otherwise(NONE)
        )
        summary.failures = _failures(dead)
        summary.held = _held(rows.where("state = 'in_flight'"))
        if summary.failures:
            span = (max(each.last for each in summary.failures)
                    - min(each.first for each in summary.failures)).total_seconds()  # fmt: skip
            summary.width = next((w for w in WIDTHS if span <= w * (BARS - 1)), WIDTHS[-1])
            summary.over_time = _over_time(dead, summary)
            summary.ages = _ages(dead, seen.taken_at)
    finally:
        rows.unpersist()
    return summary


def _failures(dead: DataFrame) -> list[Failure]:
    counted = dead.groupBy("queue", "reason").agg(
        F.count(F.lit(1)), F.unix_micros(F.min("at")), F.unix_micros(F.max("at")),
        F.max("receive_count"), F.max_by("entry", "at"),
    )  # fmt: skip
    failures = [
        Failure(queue, reason, count, _time(first), _time(last), receives, entry)
        for queue, reason, count, first, last, receives, entry in counted.collect()
    ]
    return sorted(failures, key=lambda each: (-each.count, each.queue, each.reason))


def _held(in_flight: DataFrame) -> list[Held]:
    counted = in_flight.groupBy("queue").agg(
        F.count(F.lit(1)), F.max("receive_count"), F.unix_micros(F.min("at")),
        F.unix_micros(F.max("at")),
    )  # fmt: skip
    held = [Held(queue, count, receives, _time(first), _time(last))
            for queue, count, receives, first, last in counted.collect()]  # fmt: skip
    return sorted(held, key=lambda each: (-each.count, each.queue))


def _over_time(dead: DataFrame, summary: Summary) -> Counter[tuple[datetime, str]]:
    start = F.floor(F.unix_seconds("at") / summary.width) * summary.width
    shown = set(summary.reasons)
    counted: Counter[tuple[datetime, str]] = Counter()
    for at, reason, count in dead.groupBy(start, "reason").count().collect():
        counted[_time(at * 1_000_000), reason if reason in shown else OTHER] += count
    return counted


def _ages(dead: DataFrame, now: float) -> Counter[tuple[str, str]]:
    age = F.lit(now) - F.unix_micros("at") / 1_000_000
    name = F.lit(AGES[-1][1])
    for limit, label in reversed(AGES[:-1]):
        name = F.when(age < limit, label).otherwise(name)
    counted = dead.groupBy("queue", name).count().collect()
    return Counter({(queue, label): count for queue, label, count in counted})


def _time(microseconds: int) -> datetime:
    # Spark's own timestamps arrive in the time zone of the machine.
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)
