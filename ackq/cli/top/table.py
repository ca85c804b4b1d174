"""The table of queues: cells, and the columns that fit into a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ackq.cli.tables import STYLES
from ackq.cli.top.screen import Screen
from ackq.escaping import printable
from ackq.ops.figures import UNKNOWN, by_state, count
from ackq.ops.kinds import KINDS
from ackq.ops.samples import Row, Sample, cells

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.text import Text

#: The columns with figures, by the names that `ackq.ops.samples.cells` has for them.
FIGURES = {
    "ready": "ready",
    "in flight": "in_flight",
    "delayed": "delayed",
    "dead": "dead",
    "pushed/s": "pushed",
    "taken/s": "taken",
    "acked/s": "acked",
    "returned/s": "returned",
    "oldest ready": "oldest",
    "oldest lease": "lease",
    "workers": "workers",
}
#: The columns of a terminal.
COLUMNS = ("queue", "kind", *FIGURES, "notes")
TEXTS = ("queue", "kind", "notes")
#: Columns that are shown only if they say something of a queue.
OPTIONAL = ("oldest ready", "workers", "notes")
#: Columns in the order in which they are left out of a narrow terminal.
DROPPED = (
    "notes",
    "returned/s",
    "oldest ready",
    "delayed",
    "workers",
    "pushed/s",
    "kind",
    "acked/s",
    "taken/s",
    "dead",
)
#: Minimum width of a queue's name, and how much of a long one is worth more than a column.
NAME, LONG_NAME = 12, 20
#: Minimum width of notes.
NOTES = 16
#: Width of the terminal from which on gaps are wide.
WIDE = 120
#: Lines of the screen that are not rows.
FRAME = 4
#: Most consumers and reasons in the notes.
MAX_NOTED = 3

#: Most lines with troubles.
MAX_TROUBLES = 4

KEYS = "q quit  enter details  s sort  r reverse  arrows, j, k, PgUp, PgDn move"


def values(row: Row) -> list[object]:
    """Return a row for a pipe: whole numbers, and None for what is unknown."""
    reading = row.reading
    rates = (None if rate is None else round(rate, 1) for rate in row.rates.values())
    shown = {name: None if text == UNKNOWN else text for name, text in cells(row).items()}
    return [
        reading.name,
        *by_state(reading).values(),
        *rates,
        shown["lease"],
        "paused" if reading.paused else "",
        reading.kind,
        shown["oldest"],
        reading.workers,
    ]


def table(
    sample: Sample, rows: Sequence[Row], screen: Screen, width: int, height: int, live: bool = True
) -> Group:
    """Return the title, the rows of a screen, and the last line, cut to the terminal.

    Args:
        sample: what was read.
        rows: all rows, in order.
        screen: which of them to show.
        width: of the terminal.
        height: how many rows there is room for.
        live: mark the selected row, and name the keys.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown = rows[screen.first : screen.first + height]
    texts = [_cells(row) for row in shown]
    columns = _columns(texts, width)
    made = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=width < WIDE)
    for column in columns:
        flexible = column in ("queue", "notes")
        made.add_column(
            heading(column),
            justify="left" if column in TEXTS else "right",
            no_wrap=not flexible,
            vertical="bottom",
        )
    selected = screen.at(rows) - screen.first if live else None
    for number, row in enumerate(texts):
        made.add_row(
            *(
                Text(row[column], _style(column, row[column]), no_wrap=True, overflow="ellipsis")
                for column in columns
            ),
            style="reverse" if number == selected else "",
        )
    parts: list[RenderableType] = [_title(sample, screen, len(rows), len(shown), width)]
    parts += [*trouble_lines(sample, width), made]
    if live or sample.trouble:
        parts.append(caption(sample.trouble, KEYS, width))
    return Group(*parts)


def trouble_lines(sample: Sample, width: int) -> list[Text]:
    """Return what needs a person: a line each, of which the last one may count the others."""
    from rich.text import Text

    troubles = sample.troubles
    shown = troubles if len(troubles) <= MAX_TROUBLES else troubles[: MAX_TROUBLES - 1]
    lines = [Text(f"! {each.text}", STYLES[each.severity]) for each in shown]
    if left := len(troubles) - len(shown):
        lines.append(Text(f"! {left} more: ackq attention", "bold"))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def heading(column: str) -> str:
    """Return the heading of a column on two lines."""
    return column.replace(" ", "\n").replace("/s", "\n/s")


def _cells(row: Row) -> dict[str, str]:
    reading, shown = row.reading, cells(row)
    return {
        "queue": printable(reading.name),
        "kind": reading.kind,
        **{column: shown[figure] for column, figure in FIGURES.items()},
        **({"oldest lease": "paused"} if reading.paused else {}),
        "notes": _notes(row),
    }


def _notes(row: Row) -> str:
    """Return what else is known: parts, consumers that are behind, why messages died."""
    reading, notes = row.reading, []
    if reading.parts:
        notes.append(f"{len(reading.parts)} {KINDS[reading.kind].part}s")
    behind = sorted(reading.lags.items(), key=lambda lag: -lag[1])
    notes += _first(f"{printable(name)} {count(lag)} behind" for name, lag in behind)
    dead = sorted(
        (reading.totals.dead if reading.totals else {}).items(), key=lambda counted: -counted[1]
    )
    notes += _first(f"{count(number)} {printable(reason)}" for reason, number in dead if number)
    return ", ".join(notes)


def _first(notes: Iterable[str]) -> list[str]:
    shown = list(notes)
    left = len(shown) - MAX_NOTED
    return shown if left <= 0 else [*shown[:MAX_NOTED], f"{left} more"]


def _columns(rows: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Return the columns that fit, so that no number is cut."""
    columns = [
        column
        for column in COLUMNS
        if column not in OPTIONAL or any(row[column] not in ("", UNKNOWN) for row in rows)
    ]
    gap = 1 if width < WIDE else 2
    longest = max((len(row["queue"]) for row in rows), default=0)

    def needed(column: str) -> int:
        if column == "queue":
            return max(NAME, min(LONG_NAME, longest))
        if column == "notes":
            return NOTES
        return max(map(len, (*heading(column).split("\n"), *(row[column] for row in rows))))

    for column in DROPPED:
        if column in columns and sum(gap + needed(kept) for kept in columns) - gap > width:
            columns.remove(column)
    return columns


def _title(sample: Sample, screen: Screen, total: int, shown: int, width: int) -> Text:
    from rich.text import Text

    words = [f"{total:,} {'queue' if total == 1 else 'queues'}"]
    if 0 < shown < total:
        words.append(f"{screen.first + 1}-{screen.first + shown} shown")
    if sample.snapshot.left_out:
        words.append(f"{sample.snapshot.left_out:,} not read")
    if not sample.snapshot.complete:
        words.append("still searching")
    words.append(f"by {screen.sort}{', reversed' if screen.reverse else ''}")
    words.append(time.strftime("%H:%M:%S"))
    if sample.commands is not None:
        words.append(f"server: {sample.commands:,.0f} commands/s")
    title = Text("  ".join(words))
    title.truncate(width, overflow="ellipsis")
    return title


def caption(trouble: str, keys: str, width: int) -> Text:
    """Return the last line of the screen: what is wrong, else what the keys do."""
    from rich.text import Text

    text = Text(printable(trouble), "bold red") if trouble else Text(keys, "dim")
    text.truncate(width, overflow="ellipsis")
    return text


def _style(column: str, cell: str) -> str:
    if column == "dead" and cell not in ("0", "-"):
        return "red"
    return "yellow" if column == "oldest lease" and cell.endswith(("late", "paused")) else ""
