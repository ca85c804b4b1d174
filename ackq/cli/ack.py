"""``ackq ack``."""

from __future__ import annotations

import click

from ackq.cli.options import examples
from ackq.cli.output import print_count
from ackq.cli.queues import on_queue, open_list
from ackq.cli.receipts import messages_of, settled_argument


@click.command(epilog=examples("ackq ack jobs a-1 1795252215312092"))
@on_queue
@settled_argument
def ack(queue: str, url: str | None, settled: tuple[str, ...]) -> None:
    """Acknowledge messages by the KEY and RECEIPT that `ackq pop --json` printed.

    Prints the number of messages acknowledged. If a message is no longer in flight under its
    RECEIPT, the exit code is 3; the others are acknowledged anyway. It may have been redelivered,
    already settled, dead-lettered, purged or drained.
    """
    messages = messages_of(queue, settled)
    with open_list(url, queue) as opened:
        print_count(opened.ack(*messages), "message", "acked")
