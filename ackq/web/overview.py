"""The overview: which rows it shows, and the texts in them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackq.web import format
from ackq.web.history import Curves, Series
from ackq.web.watcher import Row, View

#: Rows of a page.
PAGE = 100
KINDS = {"list": "List", "sharded": "Sharded", "delay": "Delay", "topic": "Topic", "rsmq": "RSMQ"}
#: How rows can be sorted.
SORTS = ("backlog", "dead", "name")
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


def page_of(view: View, text: str, kind: str, sort: str, number: int) -> Page:
    """Return the rows whose names contain ``text``, of one kind or of all, sorted."""
    found = [
        row
        for row in view.rows
        if text.lower() in row.reading.name.lower() and kind in ("", row.reading.kind)
    ]
    if sort == "name":
        found.sort(key=lambda row: row.reading.name)
    else:
        found.sort(key=lambda row: (-_weight(row, sort), row.reading.name))
    pages = max(1, -(-len(found) // PAGE))
    number = min(max(1, number), pages)
    rows = found[(number - 1) * PAGE : number * PAGE]
    shown = "\n".join(f"{row.reading.kind} {row.reading.name} {row.reading.paused}" for row in rows)
    return Page(rows, len(found), number, pages, f"{zlib.crc32(shown.encode()):08x}")


def _weight(row: Row, sort: str) -> int:
    return row.reading.states.get("dead", 0) if sort == "dead" else row.reading.backlog


def cells(row: Row) -> dict[str, str]:
    """Return the texts of a row, by column."""
    states = row.reading.states
    waiting = states.get("ready", 0) if states else row.reading.backlog
    return {
        "ready": format.count(waiting),
        "in_flight": format.count(states.get("in_flight", states.get("hidden"))),
        "delayed": format.count(states.get("delayed")),
        "dead": format.count(states.get("dead")),
        **{name: format.speed(found) for name, found in row.rates.items()},
        "oldest": format.span(row.reading.oldest_ready),
        "overdue": f"{format.span(row.reading.overdue)} late" if row.reading.overdue else "",
    }


def totals(row: Row | None) -> dict[str, str]:
    """Return what happened to a queue's messages since counting began, by name."""
    found = row.reading.totals if row else None
    if found is None:
        return {}
    dead = {f"dead: {reason}": count for reason, count in sorted(found.dead.items())}
    return {name: format.count(count) for name, count in {**found.counts, **dead}.items()}


def label_of(total: str) -> str:
    """Return the name of a total as the page shows it."""
    return LABELS.get(total) or total[:1].upper() + total[1:]


def tone_of(total: str) -> str:
    """Return the class of a total's curve: what is done, what failed, or neither."""
    if total in ("acked", "redriven"):
        return "out"
    return "failed" if total.startswith("dead: ") or total in ("nacked", "returned") else ""


def tiles(view: View) -> dict[str, str]:
    """Return the sums over all queues."""
    sums: dict[str, float] = dict.fromkeys(STATES, 0)
    speeds: dict[str, float | None] = dict.fromkeys(("pushed", "taken", "acked"))
    for row in view.rows:
        for name in sums:
            sums[name] += row.reading.states.get(name, 0)
        for name, found in row.rates.items():
            if found is not None:
                speeds[name] = (speeds[name] or 0) + found
    return {
        **{name: format.count(number) for name, number in sums.items()},
        **{name: format.speed(found) for name, found in speeds.items()},
        "queues": format.count(len(view.rows)),
    }


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


def live(view: View, page: Page) -> dict[str, Any]:
    """Return what changes on an open overview, for its script."""
    values = {f"sum.{name}": text for name, text in tiles(view).items()}
    curves = [row.curves for row in view.rows]
    sums = Curves(
        sums_over_time([each.backlogs for each in curves]),
        sums_over_time([each.speeds for each in curves]),
    )
    points = _charts(view, sums, "sum", values)
    for number, row in enumerate(page.rows):
        values |= {f"{number}.{name}": text for name, text in cells(row).items()}
        points[f"{number}.backlogs"] = format.points(row.curves.backlogs, view.times)
        points[f"{number}.speeds"] = format.points(row.curves.speeds, view.times)
    return _live(view, page.signature, values, points)


def live_row(view: View, row: Row | None) -> dict[str, Any]:
    """Return what changes on the open page of one queue."""
    if row is None:
        return _live(view, "gone", {}, {})
    values = {f"0.{name}": text for name, text in cells(row).items()}
    values |= {f"0.total.{name}": text for name, text in totals(row).items()}
    points = _charts(view, row.curves, "0", values)
    for name, series in row.curves.rates().items():
        points[f"0.total.{name}"] = format.points(series, view.times)
        values[f"0.rate.{name}"] = format.speed(series[-1])
        values[f"0.peak.{name}"] = format.speed(format.peak(series))
    return _live(view, signature_of(row), values, points)


def _charts(view: View, curves: Curves, prefix: str, values: dict[str, str]) -> dict[str, str]:
    """Return the points of the two large curves; add their peaks and how long they are."""
    values[f"{prefix}.peak.backlogs"] = format.count(format.peak(curves.backlogs))
    values[f"{prefix}.peak.speeds"] = format.speed(format.peak(curves.speeds))
    values[f"{prefix}.span"] = format.span(view.times[-1] - view.times[0])
    return {
        f"{prefix}.backlogs": format.points(curves.backlogs, view.times),
        f"{prefix}.speeds": format.points(curves.speeds, view.times),
    }


def signature_of(row: Row | None) -> str:
    """Return a word that changes when a queue's page has to be loaded again."""
    if row is None:
        return "gone"
    shown = "\n".join((row.reading.kind, str(row.reading.paused), *totals(row)))
    return f"{zlib.crc32(shown.encode()):08x}"


def _live(
    view: View, signature: str, values: Mapping[str, str], points: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "at": format.moment(view.at),
        "interval": view.interval,
        "signature": signature,
        "down": [each.address for each in view.snapshot.servers if not each.up],
        "values": values,
        "points": points,
    }
