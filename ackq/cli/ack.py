"""``ackq ack``."""

from __future__ import annotations

import click

from ackq.cli.connection import examples, on_queue, open_queue
from ackq.cli.settled import messages_of, settled_argument


@click.command(epilog=examples("ackq ack jobs a-1 1795252215312092"))
@on_queue
@settled_argument
def ack(queue: str, url: str | None, settled: tuple[str, ...]) -> None:
    """Settle messages by KEY and RECEIPT as `ackq pop --json` printed them.

    Prints how many there were. One that is not in flight under its RECEIPT is refused (exit code
    3), and the others are settled all the same: another consumer holds it, or it was settled
    before, by this command or by others, or it died, was purged, or went back to the list.
    """
    messages = messages_of(queue, settled)
    with open_queue(url, queue) as opened:
        click.echo(opened.ack(*messages))
