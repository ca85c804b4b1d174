"""Prints tables: for a terminal, or as tab-separated lines for other programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click

from ackq.cli.layout import widths
from ackq.escaping import printable

#: Characters of a body that a table shows.
SHOWN = 200
#: Style of each verdict.
STYLES = {"ok": "green", "unknown": "dim", "warning": "yellow"}
STYLES |= dict.fromkeys(("problem", "critical"), "bold red")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in a terminal, or tab-separated lines without a header elsewhere.

    If there are no rows, say so on stderr.
    """
    rows = [*rows]
    if not rows:
        click.echo("ackq: nothing to show", err=True)
        return
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(printable(cell) for cell in row))
        return
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    named = [printable(column) for column in columns]
    shown = [[_shown(cell)[:SHOWN] for cell in row] for row in rows]
    natural = [max(map(cell_len, texts)) for texts in zip(named, *shown, strict=True)]
    fitting = widths(columns, natural, console.width)
    kept = [number for number, column in enumerate(columns) if column in fitting]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for number in kept:
        numbers = any(isinstance(row[number], int | float) for row in rows)
        table.add_column(
            Text(named[number]),
            width=fitting[columns[number]],
            justify="right" if numbers else "left",
        )
    cropped = "ellipsis" if console.encoding.startswith("utf") else "crop"
    for texts in shown:
        table.add_row(
            *(
                Text(texts[number], overflow="fold")
                if columns[number] == "reason"
                else Text(texts[number], no_wrap=True, overflow=cropped)  # type: ignore[arg-type]
                for number in kept
            )
        )
    console.print(table)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else printable(value)


def print_findings(rows: Iterable[tuple[str, str, str]]) -> None:
    """Print rows of verdict, check and text, wrapped in a terminal."""
    if not sys.stdout.isatty():
        print_table((), rows)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for verdict, check, text in rows:
        table.add_row(Text(verdict, STYLES[verdict]), check, Text(printable(text)))
    Console(highlight=False).print(table)


def print_steps(title: str, steps: Sequence[str]) -> None:
    """Print numbered steps under a title, wrapped in a terminal."""
    if not sys.stdout.isatty():
        print_table((), [("do", number, step) for number, step in enumerate(steps, 1)])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for number, step in enumerate(steps, 1):
        table.add_row(f"{number}.", Text(printable(step)))
    console = Console(highlight=False)
    console.print()
    console.print(title, style="bold")
    console.print(table)
