"""Let Spark count the messages of a report."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from ackq.spark.report.messages import Overview

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Possible widths of a bar of the chart over time, in seconds, and the maximum number of bars.
WIDTHS = (60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
BARS = 72
#: Ages of dead letters: the upper limit in seconds, and the label.
AGES = (
    (3600, "< 1 h"),
    (6 * 3600, "1-6 h"),
    (86_400, "6-24 h"),
    (3 * 86_400, "1-3 d"),
    (7 * 86_400, "3-7 d"),
    (float("inf"), "> 7 d"),
)
#: Number of reasons that charts show separately.
REASONS = 7
OTHER = "other reasons"
NONE = "no reason"
#: The end of a reason with more columns than it names.
_MORE = re.compile(r" and \d+ more$")


@dataclass(frozen=True, slots=True)
class Failure:
    """The dead letters of one queue with one reason."""

    queue: str
    reason: str
    dead: int
    first: datetime
    last: datetime
    most_receives: int
    #: The entry of the latest one, for `ackq dead show`.
    latest: str


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """The dead letters of one queue that broke one rule of a pipeline."""

    queue: str
    #: A field and what is wrong with it, the name of a check, or why the transform failed.
    rule: str
    dead: int
    #: The ids of the first one and of the latest one; empty if a body has none.
    first_id: str
    latest_id: str


@dataclass(frozen=True, slots=True)
class Leased:
    """The messages in flight of one queue."""

    queue: str
    in_flight: int
    most_receives: int
    first_lease_ends: datetime
    last_lease_ends: datetime


@dataclass(slots=True)
class Summary:
    """The numbers of a report."""

    overview: Overview
    #: The most frequent first.
    failures: list[Failure] = field(default_factory=list)
    #: Rows that pipelines rejected. One that broke two rules counts for both.
    broken_rules: list[BrokenRule] = field(default_factory=list)
    leased: list[Leased] = field(default_factory=list)
    #: Width of a bar over time, in seconds; (start of the bar, reason) -> dead letters.
    width: int = WIDTHS[0]
    over_time: Counter[tuple[datetime, str]] = field(default_factory=Counter)
    #: (queue, label of the age) -> dead letters.
    ages: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def reasons(self) -> list[str]:
        """The reasons that charts show, the most frequent first; `OTHER` sums up the rest."""
        counted: Counter[str] = Counter()
        for failure in self.failures:
            counted[failure.reason] += failure.dead
        shown = [reason for reason, _ in counted.most_common(REASONS)]
        return shown if len(counted) <= REASONS else [*shown, OTHER]

    @property
    def dead(self) -> int:
        """The number of dead letters."""
        return sum(failure.dead for failure in self.failures)

    @property
    def in_flight(self) -> int:
        """The number of messages in flight."""
        return sum(each.in_flight for each in self.leased)


def summarise(rows: DataFrame, overview: Overview) -> Summary:
    """Count the ``rows`` of `messages`."""
    summary = Summary(overview)
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        dead = rows.where("state = 'dead'").withColumn(
            "reason", F.when(F.col("reason") != "", F.col("reason")).otherwise(NONE)
        )
        summary.failures = _failures(dead)
        if any(_rules(failure.reason) for failure in summary.failures):
            summary.broken_rules = _broken_rules(dead)
        summary.leased = _leased(rows.where("state = 'in_flight'"))
        if summary.failures:
            _count_by_time(dead, summary)
    finally:
        rows.unpersist()
    return summary


def _failures(dead: DataFrame) -> list[Failure]:
    counted = dead.groupBy("queue", "reason").agg(
        F.count("*"), *_span(), F.max("receive_count"), F.max_by("entry", "at")
    )
    failures = [
        Failure(queue, reason, count, _time(first), _time(last), *rest)
        for queue, reason, count, first, last, *rest in counted.collect()
    ]
    return sorted(failures, key=lambda each: (-each.dead, each.queue, each.reason))


def _broken_rules(dead: DataFrame) -> list[BrokenRule]:
    # A reason may name several rules, of which there are far fewer than dead letters.
    moments = [F.unix_micros(each("at")) for each in (F.min, F.max)]
    counted = dead.groupBy("queue", "reason").agg(
        F.count("*"), *moments, F.min_by("id", "at"), F.max_by("id", "at")
    )
    by_rule: dict[tuple[str, str], list[tuple[int, int, int, str, str]]] = {}
    for queue, reason, *counts, first, latest in counted.collect():
        for rule in _rules(reason):
            row = (*counts, first or "", latest or "")
            by_rule.setdefault((queue, rule), []).append(row)
    broken = [
        BrokenRule(
            *key,
            sum(each[0] for each in rows),
            min(rows, key=lambda each: each[1])[3],
            max(rows, key=lambda each: each[2])[4],
        )
        for key, rows in by_rule.items()
    ]
    return sorted(broken, key=lambda each: (-each.dead, each.queue, each.rule))


def _leased(in_flight: DataFrame) -> list[Leased]:
    counted = in_flight.groupBy("queue").agg(F.count("*"), F.max("receive_count"), *_span())
    leased = [Leased(*row[:-2], *map(_time, row[-2:])) for row in counted.collect()]
    return sorted(leased, key=lambda each: (-each.in_flight, each.queue))


def _count_by_time(dead: DataFrame, summary: Summary) -> None:
    now, shown = int(summary.overview.taken_at), set(summary.reasons)
    first = min(failure.first for failure in summary.failures)
    last = max(failure.last for failure in summary.failures)
    span = (last - first).total_seconds()
    summary.width = width = next((w for w in WIDTHS if span <= w * (BARS - 1)), WIDTHS[-1])
    # Bars end at the time of the report, so that none covers the future.
    start = now - (F.floor((now - F.unix_seconds("at")) / width) + 1) * width
    for at, reason, count in dead.groupBy(start, "reason").count().collect():
        summary.over_time[_time(at * 1_000_000), reason if reason in shown else OTHER] += count
    age, label = now - F.unix_seconds("at"), F.lit(AGES[-1][1])
    for limit, name in reversed(AGES[:-1]):
        label = F.when(age < limit, name).otherwise(label)
    for queue, name, count in dead.groupBy("queue", label).count().collect():
        summary.ages[queue, name] = count


def _span() -> tuple[Column, Column]:
    return F.unix_micros(F.min("at")), F.unix_micros(F.max("at"))


def _time(microseconds: int) -> datetime:
    # Spark's own timestamps would be in the time zone of the machine.
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


def _rules(reason: str) -> list[str]:
    """Return the rules that a row broke, such as "size is not INT"; none if no pipeline wrote it.

    Args:
        reason: of a dead letter.
    """
    kind, _, names = reason.partition(": ")
    if kind == "does not parse":
        return _MORE.sub("", names).split(", ") if names else [reason]
    if kind == "null" and names:
        return [f"{name} is null" for name in names.split(", ")]
    if kind == "check" and names:
        return [f"check {name}" for name in names.split(", ")]
    return [names] if kind == "transform" and names else []
