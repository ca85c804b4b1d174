"""Figures as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ackq.bench.figures import Measure, Ratio, Result, Spread


def text_of(result: Result) -> str:
    """Return a result as text: measures by case, ratios, notes."""
    parts = [measures_table(result.measures)]
    if result.ratios:
        parts.append(ratios_table(result.ratios))
    if result.notes:
        parts.append("\n".join(f"note: {note}" for note in result.notes))
    return "\n\n".join(parts)


def measures_table(measures: Iterable[Measure]) -> str:
    """Return one block for each contestant of each case, with all of its figures."""
    lines: dict[tuple[str, str], list[str]] = {}
    for measure in measures:
        lines.setdefault((measure.case, measure.contestant), []).append(
            f"{measure.figure} {shown(measure.spread)} {measure.unit}"
        )
    width = max((len(contestant) for _, contestant in lines), default=0)
    text: list[str] = []
    case = None
    for (now, contestant), figures in lines.items():
        if now != case:
            case = now
            text.append(f"\n{case}" if text else case)
        text.append(f"  {contestant.ljust(width)}  {figures[0]}")
        text += [f"  {' ' * width}  {figure}" for figure in figures[1:]]
    return "\n".join(text)


def ratios_table(ratios: Iterable[Ratio]) -> str:
    """Return a table with a row for each ratio: name, median, range, verdict."""
    rows = [
        [
            ratio.what,
            number(ratio.spread.median),
            f"{number(ratio.spread.min)}-{number(ratio.spread.max)}",
            ratio.verdict,
        ]
        for ratio in ratios
    ]
    return table(["ratio within a round", "median", "min-max", ""], rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows in columns: the first left-aligned, the others right-aligned."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def shown(spread: Spread) -> str:
    """Return the median with its range, rounded for reading."""
    if spread.min == spread.max:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.min)}-{number(spread.max)})"


def number(value: float) -> str:
    """Return a number rounded to about three significant digits, never losing whole digits."""
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 4}f}"
