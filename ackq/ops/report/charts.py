"""Draw the charts of a report with matplotlib, as SVG to be placed in the page."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ackq.escaping import printable
from ackq.ops.report.summary import AGES, OTHER, Summary

#: Okabe and Ito's colours, which colour-blind readers can distinguish. Grey is for the rest.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
GREY, INK = "#9AA0A6", "#202124"
#: Maximum number of queues in a chart. The tables list all of them.
QUEUES = 15
#: Minimum number of bars for which the chart over time has room, so that few bars are not wide.
ROOM = 12
#: Maximum characters of a reason, and of a queue's name, in a chart.
MAX_LABEL, MAX_NAME = 40, 24
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "ackq",
}
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def over_time(summary: Summary) -> str:
    """Draw the dead letters by time, stacked by reason."""
    starts = sorted({start for start, _ in summary.over_time})
    days: Any = dates.date2num(starts)  # type: ignore[no-untyped-call]
    width = summary.width / 86_400
    with _drawn(11, 3.6) as (axes, svg):
        _stack(
            axes.bar,
            days,
            starts,
            summary.over_time,
            summary,
            "bottom",
            width=0.92 * width,
            align="edge",
        )
        end = days[-1] + width
        axes.set_xlim(min(days[0], end - ROOM * width), end)
        locator: Any = dates.AutoDateLocator(minticks=3, maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        length, unit = next(each for each in _UNITS if summary.width >= each[0])
        axes.set_ylabel(f"dead letters in {summary.width // length} {unit}")
        axes.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1.0))
    return svg()


def by_queue(summary: Summary) -> str:
    """Draw the dead letters of each queue, stacked by reason."""
    queues, shown = _worst(summary), summary.reasons
    counts: Counter[tuple[str, str]] = Counter()
    for failure in summary.failures:
        counts[failure.queue, failure.reason if failure.reason in shown else OTHER] += failure.dead
    with _drawn(5.4, 0.8 + 0.34 * len(queues)) as (axes, svg):
        bars = _stack(axes.barh, range(len(queues)), queues, counts, summary, "left", height=0.7)
        totals = [sum(counts[queue, reason] for reason in shown) for queue in queues]
        axes.bar_label(bars, [f"{total:,}" for total in totals], padding=3)
        axes.set_xlim(0, 1.15 * max(totals))
        axes.xaxis.set_visible(False)
        axes.spines["bottom"].set_visible(False)
        _name_rows(axes, queues, 0)
    return svg()


def by_age(summary: Summary) -> str:
    """Draw the ages of the dead letters of each queue: the more, the darker."""
    queues, labels = _worst(summary), [label for _, label in AGES]
    table = [[summary.ages[queue, label] for label in labels] for queue in queues]
    most = max(map(max, table))
    with _drawn(5.4, 0.8 + 0.34 * len(queues)) as (axes, svg):
        axes.pcolormesh(
            table, cmap="Blues", norm=PowerNorm(0.5, 0, most), edgecolors="white", linewidth=3
        )
        for row, counts in enumerate(table):
            for column, count in enumerate(counts):
                axes.annotate(
                    f"{count:,}" if count else "·",
                    (column + 0.5, row + 0.5),
                    ha="center",
                    va="center",
                    color="white" if count > 0.3 * most else INK,
                )
        axes.set_xticks([column + 0.5 for column in range(len(labels))], labels)
        axes.xaxis.tick_top()
        axes.tick_params(axis="x", length=0)
        axes.spines[:].set_visible(False)
        _name_rows(axes, queues, 0.5)
    return svg()


@contextmanager
def _drawn(width: float, height: float) -> Iterator[tuple[Axes, Callable[[], str]]]:
    """Yield axes to draw on, and a function that returns the drawing after the block."""
    drawing = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure.subplots(), lambda: drawing.getvalue()[drawing.getvalue().index("<svg") :]
        figure.savefig(drawing, format="svg", transparent=True, metadata={"Date": None})


def _stack(
    draw: Callable[..., Any],
    positions: Any,
    keys: list[Any],
    counts: Counter[tuple[Any, str]],
    summary: Summary,
    base: str,
    **style: Any,
) -> Any:
    """Draw bars for ``keys``, stacked by reason along ``base``; return the last layer."""
    below, layer = [0] * len(keys), None
    for reason, colour in zip(summary.reasons, (*COLOURS, GREY), strict=False):
        layer_counts = [counts[key, reason] for key in keys]
        layer = draw(
            positions,
            layer_counts,
            **{base: below},
            **style,
            color=GREY if reason == OTHER else colour,
            label=_short(reason),
        )
        below = [low + count for low, count in zip(below, layer_counts, strict=True)]
    return layer


def _name_rows(axes: Axes, queues: list[str], middle: float) -> None:
    axes.set_yticks(
        [row + middle for row in range(len(queues))],
        [_short(queue, MAX_NAME) for queue in queues],
    )
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(queues) - 0.5 + middle, middle - 0.5)
    axes.spines["left"].set_visible(False)


def _worst(summary: Summary) -> list[str]:
    counts: Counter[str] = Counter()
    for failure in summary.failures:
        counts[failure.queue] += failure.dead
    return [queue for queue, _ in counts.most_common(QUEUES)]


def _short(text: str, longest: int = MAX_LABEL) -> str:
    text = printable(text)
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    # A dollar sign would start a formula.
    return text.replace("$", r"\$")
