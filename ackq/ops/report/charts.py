"""Draw the charts of a report in HTML: bars are boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from typing import Any

from ackq.escaping import printable
from ackq.ops.report.summary import AGES, OTHER, Summary

#: Okabe and Ito's colours, which colour-blind readers can distinguish. Grey is for the rest.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
GREY = "#9AA0A6"
#: Maximum number of queues in a chart. The tables list all of them.
QUEUES = 15
#: Minimum number of bars for which the chart over time has room, so that few bars are not wide.
ROOM = 12
#: Maximum characters of a reason, and of a queue's name, in a chart.
MAX_LABEL, MAX_NAME = 40, 24
STYLE = """
.bars { display: flex; align-items: flex-end; gap: 2px; border-bottom: 1px solid #9aa0a6; }
.bars div { flex: 1; display: flex; flex-direction: column-reverse; }
.bars i { display: block; } .bar { display: flex; height: 16px; min-width: 160px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 0 0 12px; }
.legend i { display: inline-block; width: 10px; height: 10px; margin-right: 6px; }
.axis { display: flex; justify-content: space-between; color: #5f6368; margin: 4px 0 0; }
td.age { text-align: center; }
"""
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))
#: Pixels of the highest bar over time.
_HEIGHT = 200


def over_time(summary: Summary) -> str:
    """Draw the dead letters by time, stacked by reason."""
    width, totals = summary.width, Counter[int]()
    for (start, _), count in summary.over_time.items():
        totals[int(start.timestamp())] += count
    last, top = max(totals), max(totals.values())
    first = min(min(totals), last - (ROOM - 1) * width)
    columns = []
    for at in range(first, last + width, width):
        start = datetime.fromtimestamp(at, UTC)
        parts = "".join(
            f'<i style="height:{_HEIGHT * count / top:.1f}px;background:{colour}"></i>'
            for count, colour in _stack(summary, summary.over_time, start)
        )
        columns.append(f'<div title="{start:%Y-%m-%d %H:%M}: {totals[at]:,}">{parts}</div>')
    length, unit = next(each for each in _UNITS if width >= each[0])
    ends = [f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in (first, last + width)]
    middle = f"each bar: {width // length} {unit}, at most {top:,} dead letters"
    axis = "".join(f"<span>{each}</span>" for each in (ends[0], middle, ends[1]))
    bars = f'<div class="bars">{"".join(columns)}</div>'
    return f'{_legend(summary)}{bars}<p class="axis">{axis}</p>'


def by_queue(summary: Summary) -> str:
    """Draw the dead letters of each queue, stacked by reason."""
    counts: Counter[tuple[str, str]] = Counter()
    for failure in summary.failures:
        reason = failure.reason if failure.reason in summary.reasons else OTHER
        counts[failure.queue, reason] += failure.dead
    worst = _worst(summary)
    top, rows = max(count for _, count in worst), []
    for queue, total in worst:
        parts = "".join(
            f'<i style="width:{100 * count / top:.2f}%;background:{colour}"></i>'
            for count, colour in _stack(summary, counts, queue)
        )
        bar = f'<td style="width:100%"><div class="bar">{parts}</div>'
        rows.append(
            f'<tr><td class="time">{_short(queue, MAX_NAME)}{bar}<td class="number">{total:,}'
        )
    return f"<table>{''.join(rows)}</table>"


def by_age(summary: Summary) -> str:
    """Draw the ages of the dead letters of each queue: the more, the darker."""
    top, rows = max(summary.ages.values()), []
    for queue, _ in _worst(summary):
        cells = ""
        for _, label in AGES:
            count = summary.ages[queue, label]
            shade = (count / top) ** 0.5
            colour = "white" if shade > 0.5 else "inherit"
            style = f"background:rgb(0 114 178 / {shade:.2f});color:{colour}"
            cells += f'<td class="age" style="{style}">{f"{count:,}" if count else "·"}'
        rows.append(f'<tr><td class="time">{_short(queue, MAX_NAME)}{cells}')
    head = "".join(f"<th>{escape(label)}" for _, label in AGES)
    return f"<table><tr><th>{head}{''.join(rows)}</table>"


def _stack(
    summary: Summary, counts: Counter[Any], key: datetime | str
) -> Iterator[tuple[int, str]]:
    """Yield the counts of a bar, with the colours of their reasons."""
    for reason, colour in _colours(summary).items():
        if count := counts[key, reason]:
            yield count, colour


def _colours(summary: Summary) -> dict[str, str]:
    return {**dict(zip(summary.reasons, COLOURS, strict=False)), OTHER: GREY}


def _legend(summary: Summary) -> str:
    colours = _colours(summary)
    names = (
        f'<span><i style="background:{colours[reason]}"></i>{_short(reason, MAX_LABEL)}</span>'
        for reason in summary.reasons
    )
    return f'<p class="legend">{"".join(names)}</p>'


def _worst(summary: Summary) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for failure in summary.failures:
        counts[failure.queue] += failure.dead
    return counts.most_common(QUEUES)


def _short(text: str, longest: int) -> str:
    text = printable(text)
    return escape(text if len(text) <= longest else text[: longest - 1] + "…")
