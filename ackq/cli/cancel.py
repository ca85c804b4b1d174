"""``ackq cancel``."""

from __future__ import annotations

import sys

import click

from ackq.cli import NOTHING
from ackq.cli.options import examples
from ackq.cli.output import print_count
from ackq.cli.queues import on_any_queue, open_any


@click.command(epilog=examples("ackq cancel jobs a-4 a-9", "ackq cancel jobs a-1 --running"))
@on_any_queue("cancel")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--running",
    is_flag=True,
    help="Also messages in flight. Their workers cancel asynchronous handlers, and set"
    " message.canceled, at most a third of the visibility timeout later.",
)
def cancel(queue: str, url: str | None, ids: tuple[str, ...], running: bool) -> None:
    """Move the messages of QUEUE with these IDs to the dead letters.

    Finds ready and delayed messages, and with --running those in flight. Their reason is then
    "canceled". Prints how many were canceled, and exits with 1 if there were none. A ready message
    with more than 50,000 messages before and behind it becomes a dead letter when its turn comes.
    ackq dead redrive makes canceled messages ready again; ackq dead drop deletes them permanently.
    """
    with open_any(url, queue, "cancel") as opened:
        canceled = opened.client.cancel(ids=ids, running=running)
    print_count(canceled, "message", "canceled")
    if not canceled:
        sys.exit(NOTHING)
