"""The overview: which rows it shows, and the texts in them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackq.ops.attention.model import Trouble
from ackq.ops.figures import UNKNOWN
from ackq.ops.history import Curves, Series
from ackq.ops.kinds import KINDS
from ackq.ops.samples import Row, Sample, Sort, arranged, cells
from ackq.web import format
from ackq.web.watcher import interval_of

#: Rows of a page.
PAGE = 100
#: The labels of the kinds of queue.
LABELS_OF_KINDS = {each.name: each.label for each in KINDS.values()}
#: How rows can be sorted.
SORTS: dict[str, Sort] = {
    "failing": "failing",
    "backlog": "backlog",
    "dead": "dead",
    "name": "name",
}
#: Names of totals that say more than the words by which they are kept.
LABELS = {"returned": "Redelivered", "dead_dropped": "Dead letters dropped"}
#: The states that have a column or a tile; "hidden" is RSMQ's.
STATES = ("ready", "in_flight", "delayed", "dead")


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one page."""

    rows: Sequence[Row]
    total: int
    number: int
    pages: int
    #: Changes when the rows are no longer the same queues.
    signature: str


def page_of(sample: Sample, text: str, kind: str, sort: str, number: int) -> Page:
    """Return the rows whose names contain ``text``, of one kind or of all, sorted."""
    selected = [
        row
        for row in sample.rows
        if text.lower() in row.reading.name.lower() and kind in ("", row.reading.kind)
    ]
    selected = arranged(selected, SORTS.get(sort, "failing"))
    pages = max(1, -(-len(selected) // PAGE))
    number = min(max(1, number), pages)
    rows = selected[(number - 1) * PAGE : number * PAGE]
    shown = "\n".join(
        (
            *(f"{row.reading.kind} {row.reading.name} {row.reading.paused}" for row in rows),
            *map(str, sorted(each.key for each in sample.troubles)),
        )
    )
    return Page(rows, len(selected), number, pages, f"{zlib.crc32(shown.encode()):08x}")


def totals(row: Row | None) -> dict[str, str]:
    """Return what happened to a queue's messages since counting began, by name."""
    counted = row.reading.totals if row else None
    if counted is None:
        return {}
    dead = {f"dead: {reason}": count for reason, count in sorted(counted.dead.items())}
    return {name: format.count(count) for name, count in {**counted.counts, **dead}.items()}


def label_of(total: str) -> str:
    """Return the name of a total as the page shows it."""
    return LABELS.get(total) or total[:1].upper() + total[1:]


def tone_of(total: str) -> str:
    """Return the class of a total's curve: what is done, what failed, or neither."""
    if total in ("acked", "redriven"):
        return "out"
    return "failed" if total.startswith("dead: ") or total in ("nacked", "returned") else ""


def tiles(sample: Sample) -> dict[str, str]:
    """Return the sums over all queues; nothing is known of them if Redis was never read."""
    if sample.outdated and not sample.rows:
        return dict.fromkeys((*STATES, "pushed", "taken", "acked", "queues"), UNKNOWN)
    sums: dict[str, float] = dict.fromkeys(STATES, 0)
    speeds: dict[str, float | None] = dict.fromkeys(("pushed", "taken", "acked"))
    for row in sample.rows:
        for name in sums:
            sums[name] += row.reading.states.get(name, 0)
        for name in speeds:
            if (speed := row.rates[name]) is not None:
                speeds[name] = (speeds[name] or 0) + speed
    return {
        **{name: format.count(number) for name, number in sums.items()},
        **{name: format.rate(speed) for name, speed in speeds.items()},
        "queues": format.count(len(sample.rows)),
    }


def evidence_of(troubles: Sequence[Trouble]) -> dict[str, str]:
    """Return what changes of troubles on an open page."""
    return {"evidence." + ".".join(each.key): each.evidence for each in troubles}


def sums_over_time(series: Sequence[Series]) -> Series:
    """Return the sums of the samples of all queues; a queue found later counts from then on."""
    longest = max(map(len, series), default=0)
    return [
        _sum(each[at - longest] for each in series if len(each) >= longest - at)
        for at in range(longest)
    ]


def _sum(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def live(sample: Sample, page: Page) -> dict[str, Any]:
    """Return what changes on an open overview, for its script."""
    values = {f"sum.{name}": text for name, text in tiles(sample).items()}
    values |= evidence_of(sample.troubles)
    curves = [row.curves for row in sample.rows]
    sums = Curves(
        sums_over_time([each.backlogs for each in curves]),
        sums_over_time([each.speeds for each in curves]),
        dead=sums_over_time([each.dead for each in curves]),
    )
    points = _charts(sample, sums, "sum", values)
    for number, row in enumerate(page.rows):
        values |= {f"{number}.{name}": text for name, text in cells(row).items()}
        points[f"{number}.backlogs"] = format.points(row.curves.backlogs, sample.times)
        points[f"{number}.speeds"] = format.points(row.curves.speeds, sample.times)
    return _live(sample, page.signature, values, points)


def live_row(sample: Sample, row: Row | None) -> dict[str, Any]:
    """Return what changes on the open page of one queue."""
    if row is None:
        return _live(sample, "gone", {}, {})
    values = {f"0.{name}": text for name, text in cells(row).items()}
    values |= {f"0.total.{name}": text for name, text in totals(row).items()}
    values |= evidence_of(row.troubles)
    points = _charts(sample, row.curves, "0", values)
    for name, series in row.curves.rates().items():
        points[f"0.total.{name}"] = format.points(series, sample.times)
        values[f"0.rate.{name}"] = format.rate(series[-1])
        values[f"0.peak.{name}"] = format.rate(format.peak(series))
    return _live(sample, signature_of(row), values, points)


def _charts(sample: Sample, curves: Curves, prefix: str, values: dict[str, str]) -> dict[str, str]:
    """Return the points of the two large curves; add their peaks and how long they are."""
    values[f"{prefix}.peak.backlogs"] = format.count(format.peak(curves.backlogs))
    values[f"{prefix}.peak.dead"] = format.count(format.peak(curves.dead))
    values[f"{prefix}.peak.speeds"] = format.rate(format.peak(curves.speeds))
    values[f"{prefix}.span"] = format.span(sample.times[-1] - sample.times[0])
    return {
        f"{prefix}.backlogs": format.points(curves.backlogs, sample.times),
        f"{prefix}.speeds": format.points(curves.speeds, sample.times),
        f"{prefix}.dead": format.points(curves.dead, sample.times),
    }


def signature_of(row: Row | None) -> str:
    """Return a word that changes when a queue's page has to be loaded again."""
    if row is None:
        return "gone"
    troubles = (each.key.kind for each in row.troubles)
    shown = "\n".join((row.reading.kind, str(row.reading.paused), *totals(row), *troubles))
    return f"{zlib.crc32(shown.encode()):08x}"


def _live(
    sample: Sample, signature: str, values: Mapping[str, str], points: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "at": format.moment(sample.at),
        "interval": interval_of(sample),
        "signature": signature,
        "trouble": bool(sample.trouble),
        "values": {**values, **trouble(sample)},
        "points": points,
    }


def trouble(sample: Sample) -> dict[str, str]:
    """Return what a page says in large letters if servers cannot be read."""
    if not sample.trouble:
        title = age = ""
    elif not sample.outdated:
        title, age = "Some servers cannot be read. Their queues are missing.", ""
    elif not sample.rows:
        title, age = "Redis cannot be read. Nothing is known of its queues.", ""
    else:
        seconds = format.span(time.time() - sample.at)
        title = "Redis cannot be read."
        age = f"The figures are those of {format.moment(sample.at)}, {seconds} ago."
    return {"trouble.title": title, "trouble.reason": sample.trouble, "trouble.age": age}
