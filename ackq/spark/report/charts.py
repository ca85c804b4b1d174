"""The pictures of a report, drawn by matplotlib as SVG that stands in the page."""

from __future__ import annotations

import io
from collections import Counter
from datetime import datetime
from typing import Any

import matplotlib as mpl
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ackq.escaping import printable
from ackq.spark.report.summary import AGES, OTHER, Summary

#: Colours that can be told apart without seeing red or green, by Okabe and Ito; grey is the rest.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
GREY, INK, PALE = "#9AA0A6", "#202124", "#E8EAED"
#: Queues that a picture shows; tables below have them all.
QUEUES = 15
#: Characters of a reason, and of the name of a queue, in a picture.
LONGEST, LONGEST_NAME = 40, 24
_STYLE: Any = {
    "font.family": "sans-serif", "font.size": 10, "svg.fonttype": "none", "axes.edgecolor": GREY,
    "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK,
    "svg.hashsalt": "ackq",
}  # fmt: skip


def over_time(summary: Summary) -> str:
    """Draw the dead letters by the time of their death, stacked by reason."""
    with mpl.rc_context(_STYLE):
        figure, axes = _figure(11, 3.6)
        starts = sorted({start for start, _ in summary.over_time})
        days = _days(starts)
        width = summary.width / 86_400
        below = [0] * len(starts)
        for reason in summary.reasons:
            counts = [summary.over_time[start, reason] for start in starts]
            axes.bar(days, counts, width=0.92 * width, align="edge", bottom=below,
                     color=_colour(summary, reason), label=_short(reason))  # fmt: skip
            below = [low + count for low, count in zip(below, counts, strict=True)]
        # A few bars stand on the left, instead of filling the picture.
        axes.set_xlim(days[0] - width, max(days[-1] + 2 * width, days[0] + 12 * width))
        locator: Any = dates.AutoDateLocator(minticks=3, maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel(f"dead letters in {_span(summary.width)}")
        axes.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1.0))
        return _svg(figure)


def by_queue(summary: Summary) -> str:
    """Draw the dead letters of each queue, stacked by reason."""
    queues = _worst(summary)
    counts: Counter[tuple[str, str]] = Counter()
    for each in summary.failures:
        reason = each.reason if each.reason in summary.reasons else OTHER
        counts[each.queue, reason] += each.count
    with mpl.rc_context(_STYLE):
        figure, axes = _figure(5.4, _height(queues))
        below = dict.fromkeys(queues, 0)
        for reason in summary.reasons:
            lengths = [counts[queue, reason] for queue in queues]
            axes.barh(range(len(queues)), lengths, left=list(below.values()), height=0.7,
                      color=_colour(summary, reason))  # fmt: skip
            below = {queue: below[queue] + counts[queue, reason] for queue in queues}
        for place, total in enumerate(below.values()):
            axes.annotate(f" {total:,}", (total, place), va="center")
        _name_queues(axes, queues)
        axes.set_xlim(0, 1.15 * max(below.values()))
        axes.xaxis.set_visible(False)
        axes.spines["bottom"].set_visible(False)
        return _svg(figure)


def by_age(summary: Summary) -> str:
    """Draw how old the dead letters of each queue are, the darker the more."""
    queues = _worst(summary)
    labels = [label for _, label in AGES]
    with mpl.rc_context(_STYLE):
        figure, axes = _figure(5.4, _height(queues))
        most = max(summary.ages[queue, label] for queue in queues for label in labels)
        for row, queue in enumerate(queues):
            for column, label in enumerate(labels):
                count = summary.ages[queue, label]
                share = count / most
                axes.barh(row, 0.94, left=column, height=0.8, alpha=1.0 if not count else None,
                          color=_blend(share) if count else "#F8F9FA")  # fmt: skip
                axes.annotate(
                    f"{count:,}" if count else "·", (column + 0.47, row), ha="center",
                    va="center", color="white" if share > 0.3 else INK,
                )  # fmt: skip
        axes.set_xticks([column + 0.47 for column in range(len(labels))], labels)
        axes.xaxis.tick_top()
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(0, len(labels))
        axes.spines[:].set_visible(False)
        _name_queues(axes, queues)
        return _svg(figure)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _days(times: list[datetime]) -> list[float]:
    days: Any = dates.date2num(times)  # type: ignore[no-untyped-call]
    return [float(each) for each in days]


def _name_queues(axes: Axes, queues: list[str]) -> None:
    axes.set_yticks(range(len(queues)), [_short(queue, LONGEST_NAME) for queue in queues])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(queues) - 0.5, -0.5)
    axes.spines["left"].set_visible(False)


def _worst(summary: Summary) -> list[str]:
    counts: Counter[str] = Counter()
    for each in summary.failures:
        counts[each.queue] += each.count
    return [queue for queue, _ in counts.most_common(QUEUES)]


def _height(queues: list[str]) -> float:
    return 0.8 + 0.34 * len(queues)


def _colour(summary: Summary, reason: str) -> str:
    return GREY if reason == OTHER else COLOURS[summary.reasons.index(reason)]


def _blend(share: float) -> str:
    """Return a shade of blue."""
    low, high = (0xDC, 0xE9, 0xF5), (0x08, 0x45, 0x94)
    mixed = (round(a + (b - a) * share**0.5) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{each:02x}" for each in mixed)


def _short(text: str, longest: int = LONGEST) -> str:
    text = printable(text)
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    # A dollar sign would begin a formula.
    return text.replace("$", r"\$")


def _span(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _svg(figure: Figure) -> str:
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    text = drawn.getvalue()
    return text[text.index("<svg") :]
