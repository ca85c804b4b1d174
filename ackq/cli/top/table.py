"""The table of queues: cells, and the columns that fit into a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ackq.cli.connection import span
from ackq.cli.top.view import Row, Sample, View
from ackq.escaping import printable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.text import Text

#: The values of a line in a pipe or a file.
VALUES = (
    "queue",
    "ready",
    "in flight",
    "delayed",
    "dead",
    "pushed/s",
    "taken/s",
    "acked/s",
    "returned/s",
    "oldest lease",
    "paused",
    "kind",
    "oldest ready",
    "workers",
)
#: The columns of a terminal.
COLUMNS = (
    "queue",
    "kind",
    "ready",
    "in flight",
    "delayed",
    "dead",
    "pushed/s",
    "taken/s",
    "acked/s",
    "returned/s",
    "oldest ready",
    "oldest lease",
    "workers",
    "notes",
)
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
MOST_NOTED = 3

KEYS = "q quit  enter details  s sort  r reverse  arrows, j, k, PgUp, PgDn move"


def values(row: Row) -> list[object]:
    """Return a row for a pipe: whole numbers, and None for what is unknown."""
    reading = row.reading
    rates = (None if each is None else round(each, 1) for each in row.rates.values())
    return [
        reading.name,
        *_counts(row),
        *rates,
        _lease(row),
        "paused" if reading.paused else "",
        reading.kind,
        _age(reading.oldest_ready),
        reading.workers,
    ]


def table(
    sample: Sample, rows: Sequence[Row], view: View, width: int, height: int, live: bool = True
) -> Group:
    """Return the title, the rows of a view, and the last line, cut to the terminal.

    Args:
        sample: what was read.
        rows: all rows, in order.
        view: which of them to show.
        width: of the terminal.
        height: how many rows there is room for.
        live: mark the selected row, and name the keys.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown = rows[view.first : view.first + height]
    cells = [_cells(row) for row in shown]
    columns = _columns(cells, width)
    made = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=width < WIDE)
    for column in columns:
        flexible = column in ("queue", "notes")
        made.add_column(
            heading(column),
            justify="left" if column in TEXTS else "right",
            no_wrap=not flexible,
            vertical="bottom",
        )
    selected = view.at(rows) - view.first if live else None
    for number, row in enumerate(cells):
        made.add_row(
            *(
                Text(row[column], _style(column, row[column]), no_wrap=True, overflow="ellipsis")
                for column in columns
            ),
            style="reverse" if number == selected else "",
        )
    parts: list[RenderableType] = [_title(sample, view, len(rows), len(shown), width), made]
    if live or sample.trouble:
        parts.append(caption(sample.trouble, KEYS, width))
    return Group(*parts)


def heading(column: str) -> str:
    """Return the heading of a column on two lines."""
    return column.replace(" ", "\n").replace("/s", "\n/s")


def count(number: int | None) -> str:
    """Return a number of messages for a terminal."""
    if number is None:
        return "-"
    return f"{number:,}" if number < 1_000_000 else f"{number / 1e6:,.2f}M"


def rate(number: float | None) -> str:
    """Return a number per second for a terminal."""
    if number is None:
        return "-"
    if number >= 1_000_000:
        return f"{number / 1e6:,.1f}M"
    if number >= 10_000:
        return f"{number / 1000:.1f}k"
    return f"{number:.1f}" if 0 < number < 10 else f"{number:,.0f}"


def _cells(row: Row) -> dict[str, str]:
    reading = row.reading
    return {
        "queue": printable(reading.name),
        "kind": reading.kind,
        **dict(zip(COLUMNS[2:6], map(count, _counts(row)), strict=True)),
        **dict(zip(COLUMNS[6:10], map(rate, row.rates.values()), strict=True)),
        "oldest ready": _age(reading.oldest_ready) or "-",
        "oldest lease": "paused" if reading.paused else _lease(row) or "-",
        "workers": count(reading.workers),
        "notes": _notes(row),
    }


def _counts(row: Row) -> tuple[int | None, ...]:
    """Return the messages by state. Messages that a topic's consumer is behind count as ready."""
    states = row.reading.states
    return (
        states.get("ready", 0) if states else row.reading.backlog,
        states.get("in_flight", states.get("hidden")),
        states.get("delayed"),
        states.get("dead"),
    )


def _lease(row: Row) -> str | None:
    if row.reading.overdue:
        return f"{span(row.reading.overdue)} late"
    return _age(row.reading.lease_age)


def _age(seconds: float | None) -> str | None:
    return None if seconds is None else span(seconds)


def _notes(row: Row) -> str:
    """Return what else is known: parts, consumers that are behind, why messages died."""
    reading, notes = row.reading, []
    if reading.parts:
        parts = "shards" if reading.kind == "sharded" else "partitions"
        notes.append(f"{len(reading.parts)} {parts}")
    behind = sorted(reading.lags.items(), key=lambda each: -each[1])
    notes += _first(f"{printable(name)} {count(lag)} behind" for name, lag in behind)
    dead = sorted(
        (reading.totals.dead if reading.totals else {}).items(), key=lambda each: -each[1]
    )
    notes += _first(f"{count(number)} {printable(reason)}" for reason, number in dead if number)
    return ", ".join(notes)


def _first(notes: Iterable[str]) -> list[str]:
    found = list(notes)
    left = len(found) - MOST_NOTED
    return found if left <= 0 else [*found[:MOST_NOTED], f"{left} more"]


def _columns(cells: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Return the columns that fit, so that no number is cut."""
    columns = [
        column
        for column in COLUMNS
        if column not in OPTIONAL or any(row[column] not in ("", "-") for row in cells)
    ]
    gap = 1 if width < WIDE else 2
    longest = max((len(row["queue"]) for row in cells), default=0)

    def needed(column: str) -> int:
        if column == "queue":
            return max(NAME, min(LONG_NAME, longest))
        if column == "notes":
            return NOTES
        return max(map(len, (*heading(column).split("\n"), *(row[column] for row in cells))))

    for column in DROPPED:
        if column in columns and sum(gap + needed(each) for each in columns) - gap > width:
            columns.remove(column)
    return columns


def _title(sample: Sample, view: View, total: int, shown: int, width: int) -> Text:
    from rich.text import Text

    words = [f"{total:,} {'queue' if total == 1 else 'queues'}"]
    if 0 < shown < total:
        words.append(f"{view.first + 1}-{view.first + shown} shown")
    if sample.snapshot.left_out:
        words.append(f"{sample.snapshot.left_out:,} not read")
    if not sample.snapshot.complete:
        words.append("still searching")
    words.append(f"by {view.sort}{', reversed' if view.reverse else ''}")
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
