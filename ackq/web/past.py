"""What the page shows of a queue's last day: charts with an axis of time, marks, and tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from ackq.ops.chronicle.minutes import MINUTE, Minute, TaskWork, Work
from ackq.ops.operation_log import Entry
from ackq.web import format

#: The spans that can be chosen: their names, seconds, parts of a curve, and seconds between ticks.
SPANS = {
    "1h": ("1 hour", 3600, 60, 600),
    "6h": ("6 hours", 6 * 3600, 72, 3600),
    "24h": ("24 hours", 24 * 3600, 96, 4 * 3600),
}
SPAN = "6h"
#: Size of a chart in its own units.
WIDTH, HEIGHT = 600, 100
#: Most marks of a chart: those of the last operations.
MAX_MARKS = 40


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


class Tick(NamedTuple):
    """A time on an axis: how many percent of the width come before it, and its text."""

    place: str
    text: str


class Mark(NamedTuple):
    """An operation, or a mark that somebody has set."""

    place: str
    at: float
    text: str


class Line(NamedTuple):
    """A curve of a chart."""

    label: str
    tone: str
    path: str
    #: Its last value and its largest one, as texts.
    last: str
    peak: str


class Chart(NamedTuple):
    """Curves with one scale, from zero."""

    title: str
    lines: Sequence[Line]
    top: str


class TaskRow(NamedTuple):
    """What workers did with the messages of a task."""

    name: str
    work: TaskWork
    median: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Past:
    """A queue's past, ready to be shown."""

    span: str
    charts: Sequence[Chart]
    ticks: Sequence[Tick]
    marks: Sequence[Mark]
    tasks: Sequence[TaskRow]
    #: Dead letters by reason, the most frequent first.
    reasons: Sequence[tuple[str, int]]
    #: Whether anything was recorded.
    known: bool


_Value = Callable[[Bin], float | None]


def past(rows: Sequence[Minute], entries: Iterable[Entry], now: float, span: str) -> Past:
    """Return what to show of the last hours of a queue.

    Args:
        rows: its minutes, oldest first.
        entries: operations and marks that may fall into this time.
        now: its end, in seconds since the epoch.
        span: a key of `SPANS`.
    """
    _, seconds, number, every = SPANS[span]
    end = -(-now // 60) * 60
    parts = bins(rows, end, seconds, number)
    charts = [
        _chart(
            "Backlog",
            parts,
            format.count,
            ("ready", "", lambda part: _last_of(part, 0)),
            ("in flight", "second", lambda part: _last_of(part, 1)),
        ),
        _chart(
            "Messages per second",
            parts,
            format.rate,
            ("pushed", "", lambda part: part.per_second("pushed")),
            ("acked", "out", lambda part: part.per_second("acked")),
        ),
        _chart(
            "Failures per minute",
            parts,
            format.rate,
            ("dead", "failed", lambda part: _a_minute(part, part.died())),
            ("nacked", "warned", lambda part: _a_minute(part, part.counts.get("nacked", 0.0))),
            (
                "lease ended",
                "second",
                lambda part: _a_minute(part, part.counts.get("returned", 0.0)),
            ),
        ),
        _chart(
            "Age of the oldest ready message",
            parts,
            format.span,
            ("age", "warned", lambda part: part.last.oldest if part.last else None),
        ),
        _chart(
            "Time of handlers",
            parts,
            format.short_span,
            ("p50", "out", lambda part: part.work.durations.quantile(0.5)),
            ("p95", "", lambda part: part.work.durations.quantile(0.95)),
            ("p99", "failed", lambda part: part.work.durations.quantile(0.99)),
        ),
    ]
    begin = end - seconds
    within = [row for row in rows if row.at > begin]
    return Past(
        span,
        [chart for chart in charts if chart.lines],
        [*_ticks(begin, end, every)],
        [*_marks(entries, begin, end)],
        _tasks(within),
        _reasons(within),
        bool(within),
    )


def _last_of(part: Bin, state: int) -> float | None:
    return part.last.states[state] if part.last else None


def _a_minute(part: Bin, count: float | None) -> float | None:
    return (count or 0.0) * 60 / part.known if part.known else None


def _chart(
    title: str,
    parts: Sequence[Bin],
    text: Callable[[float], str],
    *lines: tuple[str, str, _Value],
) -> Chart:
    """Return a chart of the curves of which anything is known."""
    series = [(label, tone, [value(part) for part in parts]) for label, tone, value in lines]
    known = [
        (label, tone, values)
        for label, tone, values in series
        if any(value is not None for value in values)
    ]
    top = max((format.peak(values) or 0.0 for _, _, values in known), default=0.0)
    return Chart(
        title,
        [
            Line(
                label, tone, _path(values, top), text(_last(values)), text(format.peak(values) or 0)
            )
            for label, tone, values in known
        ],
        text(top),
    )


def _last(values: Sequence[float | None]) -> float:
    return next(value for value in reversed(values) if value is not None)


def _path(values: Sequence[float | None], top: float) -> str:
    """Return the path of a curve. It has a gap where nothing is known."""
    steps, drawn = [], False
    wide, high = WIDTH / len(values), (HEIGHT - 4) / max(top, 1e-9)
    for at, value in enumerate(values):
        if value is not None:
            place = f"{at * wide:.1f} {HEIGHT - 2 - value * high:.1f}"
            # A part by itself is a short line.
            steps.append(f"{'L' if drawn else 'M'}{place}h{wide:.1f}")
        drawn = value is not None
    return "".join(steps)


def _ticks(begin: float, end: float, every: int) -> Iterable[Tick]:
    at = -(-begin // every) * every
    while at <= end:
        place = 100 * (at - begin) / (end - begin)
        if 3 < place < 97:  # a text at the edge would be cut
            yield Tick(f"{place:.2f}%", f"{datetime.fromtimestamp(at, UTC):%H:%M}")
        at += every


def _marks(entries: Iterable[Entry], begin: float, end: float) -> Iterable[Mark]:
    within = [entry for entry in entries if begin < entry.at <= end]
    for entry in within[:MAX_MARKS]:
        place = 100 * (entry.at - begin) / (end - begin)
        about = f"{entry.what}, {entry.name}" if entry.name else entry.what
        yield Mark(f"{place:.2f}%", entry.at, f"{about}, by {entry.who}")


def _tasks(rows: Iterable[Minute]) -> list[TaskRow]:
    sums: dict[str, TaskWork] = {}
    for row in rows:
        for name, work in row.work.tasks.items():
            sums.setdefault(name, TaskWork()).include(work)
    quantile = {name: work.durations.quantile for name, work in sums.items()}
    task_rows = [
        TaskRow(name, work, quantile[name](0.5), quantile[name](0.95), quantile[name](0.99))
        for name, work in sums.items()
    ]
    return sorted(task_rows, key=lambda row: (-row.work.failed - row.work.rejected, row.name))


def _reasons(rows: Iterable[Minute]) -> list[tuple[str, int]]:
    sums: dict[str, int] = {}
    for row in rows:
        for reason, count in row.dead.items():
            sums[reason] = sums.get(reason, 0) + count
    return sorted(sums.items(), key=lambda each: -each[1])
