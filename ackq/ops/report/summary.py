"""Count the messages of a report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Literal

from ackq.queue.messages import QueueStats

State = Literal["dead", "in_flight"]

NONE = "no reason"
#: The end of a reason with more columns than it names.
_MORE = re.compile(r" and \d+ more$")


@dataclass(frozen=True, slots=True)
class Failure:
    """The dead letters of one queue with one reason."""

    queue: str
    reason: str
    dead: int


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


@dataclass(slots=True)
class Summary:
    """The numbers of a report."""

    #: The counts of each queue. A sharded queue is counted shard by shard.
    queues: Mapping[str, QueueStats]
    #: The most frequent first.
    failures: list[Failure] = field(default_factory=list)
    #: Rows that pipelines rejected. One that broke two rules counts for both.
    broken_rules: list[BrokenRule] = field(default_factory=list)
    #: Messages in flight of each queue that has any.
    leased: Counter[str] = field(default_factory=Counter)

    @property
    def dead(self) -> int:
        """The number of dead letters."""
        return sum(failure.dead for failure in self.failures)

    @property
    def in_flight(self) -> int:
        """The number of messages in flight."""
        return self.leased.total()


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

    def add(self, row: Row) -> None:
        self.count += 1
        self.first = min(self.first, row, key=attrgetter("at"))
        self.last = max(row, self.last, key=attrgetter("at"))


def summarise(rows: Iterable[Row], queues: Mapping[str, QueueStats]) -> Summary:
    """Count rows.

    Args:
        rows: are read once, and not kept.
        queues: the counts of each queue.
    """
    summary = Summary(queues)
    dead: Counter[tuple[str, str]] = Counter()
    rules: dict[tuple[str, str], _Group] = {}
    for row in rows:
        if row.state == "in_flight":
            summary.leased[row.queue] += 1
            continue
        reason = row.reason or NONE
        dead[row.queue, reason] += 1
        for rule in _rules(reason):
            rules.setdefault((row.queue, rule), _Group(row, row)).add(row)
    by_count = sorted(dead.items(), key=lambda each: (-each[1], each[0]))
    summary.failures = [Failure(*key, count) for key, count in by_count]
    summary.broken_rules = [
        BrokenRule(*key, of.count, of.first.id or "", of.last.id or "")
        for key, of in sorted(rules.items(), key=lambda each: (-each[1].count, each[0]))
    ]
    return summary


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
