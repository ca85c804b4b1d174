"""``ackq run-now``."""

from __future__ import annotations

import sys

import click

from ackq.cli import NOTHING
from ackq.cli.options import examples
from ackq.cli.queues import on_any_queue, open_any


@click.command(epilog=examples("ackq run-now jobs a-4 a-9"))
@on_any_queue("cancel")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def run_now(queue: str, url: str | None, ids: tuple[str, ...]) -> None:
    """Make the messages of QUEUE with these IDs the next ones to be delivered.

    Finds delayed and ready messages. Prints how many were moved, and exits with 1 if there were
    none. A ready message with more than 50,000 messages before and behind it stays where it is. A
    queue with groups keeps the order of ready messages, and only its delayed ones can be run now.
    """
    with open_any(url, queue, "cancel") as opened:
        moved = opened.client.run_now(ids=ids)
    click.echo(moved)
    if not moved:
        sys.exit(NOTHING)
