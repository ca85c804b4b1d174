"""``ackq stats``."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from ackq.cli.connection import examples, json_option, on_queue, open_queue, print_json, print_table


@click.command(epilog=examples("ackq stats jobs", "ackq stats jobs --json"))
@on_queue
@json_option
def stats(queue: str, url: str | None, as_json: bool) -> None:
    """Count the messages of QUEUE by state.

    Each message is counted once, as ready, in_flight, delayed or dead. expired (lease ended) and
    due (delay over) are parts of ready; claimed, the messages in claims, is part of in_flight.
    """
    with open_queue(url, queue) as opened:
        counts = asdict(opened.stats())
    if as_json:
        print_json(counts)
    else:
        print_table(("", queue), [(name, shown(value)) for name, value in counts.items()])


def shown(value: float | None) -> str | float | None:
    """Format a count, a flag or a number of seconds for a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f} s" if sys.stdout.isatty() else round(value, 1)
    return value
