"""Count the messages of a report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import Literal, TypeVar

from ackq.queue.messages import QueueStats

State = Literal["dead", "in_flight"]
#: The key of a group.
K = TypeVar("K", str, tuple[str, str])

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

    #: Seconds since the epoch by the server's clock, or by this machine's if the server does not
    #: permit TIME.
    taken_at: float
    #: The counts of each queue. A sharded queue is counted shard by shard.
    queues: Mapping[str, QueueStats]
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


@dataclass(frozen=True, slots=True)
class Row:
    """A dead letter, or a message in flight. Without its body, which may be confidential."""

    queue: str
    state: State
    #: The id in the body; None: there is none.
    id: str | None
    #: The entry of a dead letter.
    entry: str | None
    reason: str | None
    receive_count: int
    #: When it became a dead letter, or when its lease ends.
    at: datetime
    #: The size of the body.
    bytes: int


@dataclass(slots=True)
class _Group:
    """Rows that are counted together. Only the first and the latest one are kept."""

    first: Row
    last: Row
    count: int = 0
    most_receives: int = 0

    def add(self, row: Row) -> None:
        self.count += 1
        self.most_receives = max(self.most_receives, row.receive_count)
        self.first = min(self.first, row, key=attrgetter("at"))
        self.last = max(row, self.last, key=attrgetter("at"))


def summarise(rows: Iterable[Row], taken_at: float, queues: Mapping[str, QueueStats]) -> Summary:
    """Count rows.

    Args:
        rows: are read once, and not kept.
        taken_at: the time of the report, in seconds since the epoch.
        queues: the counts of each queue.
    """
    summary = Summary(taken_at, queues)
    dead: dict[tuple[str, str], _Group] = {}
    rules: dict[tuple[str, str], _Group] = {}
    in_flight: dict[str, _Group] = {}
    minutes: Counter[tuple[str, str, int]] = Counter()
    for row in rows:
        if row.state == "in_flight":
            in_flight.setdefault(row.queue, _Group(row, row)).add(row)
            continue
        reason = row.reason or NONE
        dead.setdefault((row.queue, reason), _Group(row, row)).add(row)
        # All bars and ages are whole minutes.
        minutes[row.queue, reason, (int(taken_at) - int(row.at.timestamp())) // 60] += 1
        for rule in _rules(reason):
            rules.setdefault((row.queue, rule), _Group(row, row)).add(row)
    summary.failures = [
        Failure(*key, of.count, of.first.at, of.last.at, of.most_receives, of.last.entry or "")
        for key, of in _largest(dead)
    ]
    summary.broken_rules = [
        BrokenRule(*key, of.count, of.first.id or "", of.last.id or "")
        for key, of in _largest(rules)
    ]
    summary.leased = [
        Leased(queue, of.count, of.most_receives, of.first.at, of.last.at)
        for queue, of in _largest(in_flight)
    ]
    if minutes:
        _count_by_time(minutes, summary)
    return summary


def _largest(groups: dict[K, _Group]) -> list[tuple[K, _Group]]:
    return sorted(groups.items(), key=lambda each: (-each[1].count, each[0]))


def _count_by_time(minutes: Counter[tuple[str, str, int]], summary: Summary) -> None:
    """Count dead letters by age: those of each queue, reason and age in minutes are known."""
    now, shown = int(summary.taken_at), set(summary.reasons)
    ages = [age for _, _, age in minutes]
    span = 60 * (max(ages) - min(ages) + 1)
    summary.width = width = next((w for w in WIDTHS if span <= w * (BARS - 1)), WIDTHS[-1])
    for (queue, reason, age), count in minutes.items():
        # Bars end at the time of the report, so that none covers the future.
        start = datetime.fromtimestamp(now - (60 * age // width + 1) * width, UTC)
        summary.over_time[start, reason if reason in shown else OTHER] += count
        label = next(name for limit, name in AGES if 60 * age < limit)
        summary.ages[queue, label] += count


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
