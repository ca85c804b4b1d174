"""``ackq extend``."""

from __future__ import annotations

import click

from ackq.cli.connection import examples, on_queue, open_queue, seconds
from ackq.cli.settled import messages_of, settled_argument


@click.command(epilog=examples("ackq extend jobs a-1 1795252215312092 --lease 300"))
@on_queue
@settled_argument
@click.option("--lease", type=float, callback=seconds, default=30.0, metavar="SECONDS",
              help="How long they are yours from now.  [30]")  # fmt: skip
def extend(queue: str, url: str | None, settled: tuple[str, ...], lease: float) -> None:
    """Keep messages for longer, by KEY and RECEIPT as `ackq pop --json` printed them.

    Prints how many there were; the receipts stay as they are. One that is not in flight under its
    RECEIPT is refused (exit code 3), and the others are extended all the same.
    """
    messages = messages_of(queue, settled)
    with open_queue(url, queue) as opened:
        click.echo(opened.extend(*messages, timeout=lease))
