"""``ackq find``."""

from __future__ import annotations

import sys

import click

from ackq.cli import NOTHING
from ackq.cli.found import print_found, within_option
from ackq.cli.options import examples, json_option
from ackq.cli.queues import on_any_queue, open_any


@click.command(epilog=examples("ackq find jobs a-1", "ackq find jobs a-1 --within all --json"))
@on_any_queue("find")
@click.argument("message_id", metavar="ID")
@within_option
@json_option
def find(queue: str, url: str | None, message_id: str, within: int | None, as_json: bool) -> None:
    """Show where the messages of QUEUE with an ID are: ready, in flight, delayed or dead.

    Nothing is changed. Exits with 1 if there is no such message: it was acked, or it is further
    from delivery than --within.
    """
    with open_any(url, queue, "find") as opened:
        matches = opened.client.find_all(message_id, within=within)
    print_found(matches, as_json)
    if not matches:
        searched = "" if within is None else f" within {within:,} messages of each state"
        click.echo(f"ackq: {queue} has no message {message_id!r}{searched}", err=True)
        sys.exit(NOTHING)
