"""Pictures of results, drawn by matplotlib: ``pip install --group bench``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from ackq.bench.figures import Measure, Ratio, Result, Spread
from ackq.bench.tables import number
from benchmarks.picture import Picture

#: The same contestant has the same colour in every picture of a benchmark; ackq's are blue.
OWN = ("#0b5fa5", "#5aa9e6", "#0a3d66", "#9fd0f5")
OTHERS = (
    "#8a8a8a",
    "#e07b39",
    "#6a9a3a",
    "#b0468e",
    "#c9a227",
    "#7a5c43",
    "#cf4446",
    "#3f9c94",
    "#5b5b9e",
    "#b8b8b8",
)
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "figure.constrained_layout.h_pad": 0.09,
    "legend.frameon": False,
}
#: Characters of a legend beside each other, of which the sign of each label takes some.
LINE, SIGN = 112, 5
#: Ticks of an axis of multiples.
TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
#: Ticks of an axis of percentiles.
SHARES = {0.5: "50 %", 0.9: "90 %", 0.99: "99 %", 0.999: "99.9 %", 0.9999: "99.99 %"}


def draw(result: Result, picture: Picture, path: Path) -> bool:
    """Draw a picture of a result as PNG. Return False if the result has no data for it."""
    measures = _chosen(result.measures, picture)
    if not measures:
        return False
    colours = colours_of(result)
    with _figure(path, 9.0, 4.6) as axes:
        if picture.kind == "bars":
            _bars(axes, picture, measures, colours)
        else:
            _lines(axes, picture, measures, colours)
        axes.figure.suptitle(picture.title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        _, labels = axes.get_legend_handles_labels()
        axes.figure.legend(
            loc="outside lower left",
            ncols=_columns(labels),
            fontsize=9,
            handlelength=1.2,
            columnspacing=1.4,
        )
    return True


def draw_targets(ratios: Sequence[Ratio], path: Path) -> bool:
    """Draw how far each ratio is from its target. Return False if no ratio has a target."""
    aimed = [ratio for ratio in ratios if ratio.target]
    if not aimed:
        return False
    with _figure(path, 9.0, 1.3 + 0.36 * len(aimed)) as axes:
        for at, each in enumerate(aimed):
            assert each.target
            # To the right of the line is better, both for floors and for ceilings.
            good = sorted(
                each.target / value if each.ceiling else value / each.target
                for value in (each.spread.median, each.spread.min, each.spread.max)
            )
            colour = "#2f8f4e" if each.reached else "#cf4446"
            axes.plot(
                (good[0], good[2]),
                (at, at),
                color=colour,
                alpha=0.35,
                linewidth=6,
                solid_capstyle="round",
            )
            axes.plot(good[1], at, "o", color=colour, markersize=7)
        axes.axvline(1, color="#333333", linewidth=1)
        axes.set_yticks(
            range(len(aimed)),
            [f"{each.what} {'≤' if each.ceiling else '≥'} {each.target:g}" for each in aimed],
        )
        axes.grid(axis="y", visible=False)
        axes.set_xscale("log")
        least, most = axes.get_xlim()
        if most < 4 * least:
            axes.set_xscale("linear")
        else:
            axes.set_xticks([each for each in TIMES if least <= each <= most])
            axes.minorticks_off()
        _plain(axes.xaxis)
        axes.set_xlabel("times as good as the target: median, least to greatest round", loc="right")
        axes.set_ylim(len(aimed) - 0.5, -0.5)
        axes.figure.suptitle(
            "Targets: green is reached", x=0.01, ha="left", fontsize=12, fontweight="bold"
        )
    return True


def colours_of(result: Result) -> dict[str, str]:
    """Return a colour for each contestant: blues for ackq's, others for others."""
    own, others = iter(OWN * 9), iter(OTHERS * 9)
    return {
        contestant: next(own if "ackq" in contestant else others)
        for contestant in dict.fromkeys(measure.contestant for measure in result.measures)
    }


@contextmanager
def _figure(path: Path, width: float, height: float) -> Iterator[Any]:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure.subplots()
        figure.savefig(path, dpi=150, metadata={"Software": None})


def _chosen(measures: Iterable[Measure], picture: Picture) -> list[Measure]:
    """Return the measures that the picture shows, in its order of contestants."""
    order = {contestant: at for at, contestant in enumerate(picture.contestants)}
    found = [
        measure
        for measure in measures
        if measure.figure == picture.figure
        and (not picture.cases or measure.case.startswith(tuple(picture.cases)))
        and (not order or measure.contestant in order)
        and (picture.kind == "bars" or measure.at is not None)
    ]
    return sorted(found, key=lambda each: order.get(each.contestant, 0))


def _bars(
    axes: Any, picture: Picture, measures: Sequence[Measure], colours: Mapping[str, str]
) -> None:
    spreads = _spreads(picture, measures)
    cases = list(dict.fromkeys(case for case, _ in spreads))
    cases.sort(key=lambda case: [measure.case for measure in measures].index(case))
    contestants = list(dict.fromkeys(contestant for _, contestant in spreads))
    present = {
        case: [contestant for contestant in contestants if (case, contestant) in spreads]
        for case in cases
    }
    most = max(map(len, present.values()))
    width = 0.84 / most
    crowded = most * len(cases) > 16
    for contestant in contestants:
        colour = colours[contestant]
        spots = [
            (
                at + (present[case].index(contestant) - (len(present[case]) - 1) / 2) * width,
                spreads[case, contestant],
            )
            for at, case in enumerate(cases)
            if contestant in present[case]
        ]
        medians = [spread.median for _, spread in spots]
        reach = [
            [spread.median - spread.min for _, spread in spots],
            [spread.max - spread.median for _, spread in spots],
        ]
        xs = [x for x, _ in spots]
        whiskers = {"elinewidth": 0.9, "ecolor": "#333333"}
        if picture.log:  # where a bar would begin is arbitrary
            axes.errorbar(
                xs,
                medians,
                reach,
                fmt="o",
                markersize=8,
                color=colour,
                label=contestant,
                **whiskers,
            )
        else:
            axes.bar(
                xs,
                medians,
                width * 0.94,
                label=contestant,
                color=colour,
                yerr=reach,
                error_kw=whiskers,
            )
        for x, spread in spots:
            axes.annotate(
                _short(spread.median),
                (x, spread.max),
                (0, 6),
                fontsize=7,
                textcoords="offset points",
                ha="center",
                va="bottom",
                rotation=90 if crowded else 0,
            )
    axes.set_xticks(range(len(cases)), [_wrapped(case, len(cases)) for case in cases])
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.14)
    if picture.log:
        axes.set_yscale("log")
    if picture.relative_to:
        axes.axhline(1, color="#333333", linewidth=0.8)
        axes.set_ylabel(f"times {picture.relative_to}")
    else:
        axes.set_ylabel(f"{picture.figure}, {measures[0].unit}")
        _plain(axes.yaxis)


def _lines(
    axes: Any, picture: Picture, measures: Sequence[Measure], colours: Mapping[str, str]
) -> None:
    lines: dict[tuple[str, str], list[Measure]] = {}
    several = _several_cases(measures)
    for each in measures:
        lines.setdefault((each.contestant, each.case if several else ""), []).append(each)
    styles = dict(
        zip(dict.fromkeys(case for _, case in lines), ("-", "--", ":", "-.") * 9, strict=False)
    )
    for (contestant, case), points in lines.items():
        colour = colours[contestant]
        points.sort(key=lambda each: each.at or 0)
        xs = [_place(point.at or 0, picture.scale) for point in points]
        label = f"{contestant}, {case}" if case else contestant
        axes.plot(
            xs,
            [point.spread.median for point in points],
            styles[case],
            marker="o",
            markersize=4,
            color=colour,
            label=label,
        )
        axes.fill_between(
            xs,
            [point.spread.min for point in points],
            [point.spread.max for point in points],
            color=colour,
            alpha=0.13,
            linewidth=0,
        )
    axes.set_xlabel(picture.x)
    axes.set_ylabel(f"{picture.figure}, {measures[0].unit}")
    if picture.scale != "linear":
        axes.set_xscale("log")
        _plain(axes.xaxis)
    if picture.scale == "percentile":
        axes.set_xticks([_place(share, "percentile") for share in SHARES], list(SHARES.values()))
        axes.minorticks_off()
    if picture.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    _plain(axes.yaxis)


def _spreads(picture: Picture, measures: Sequence[Measure]) -> dict[tuple[str, str], Spread]:
    """Return the values of the bars, by case and contestant."""
    if not picture.relative_to:
        return {(measure.case, measure.contestant): measure.spread for measure in measures}
    bases = {
        measure.case: measure for measure in measures if measure.contestant == picture.relative_to
    }
    found = {}
    for measure in measures:
        base = bases.get(measure.case)
        if base is not None and measure is not base and len(base.rounds) == len(measure.rounds):
            found[measure.case, measure.contestant] = Ratio.of(
                "", measure.rounds, base.rounds
            ).spread
    return found


def _columns(labels: Sequence[str]) -> int:
    """Return how many columns of a legend fit: one line of it, or columns of one width."""
    lengths = [len(label) + SIGN for label in labels]
    return len(labels) if sum(lengths) <= LINE else max(1, LINE // max(lengths))


def _several_cases(measures: Iterable[Measure]) -> bool:
    """Return whether a contestant has lines of several cases, which labels must tell apart."""
    seen = [(measure.contestant, measure.at) for measure in measures]
    return len(set(seen)) < len(seen)


def _place(at: float, scale: str) -> float:
    return 1 / (1 - min(at, 0.999999)) if scale == "percentile" else at


def _plain(axis: Any) -> None:
    axis.set_major_formatter(lambda value, _: _short(value))


def _short(value: float) -> str:
    """Return a number in a short readable form."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return number(value) if 0 < abs(value) < 0.1 else f"{value:.3g}"


def _wrapped(case: str, cases: int) -> str:
    return case.replace(", ", ",\n") if cases > 3 else case
