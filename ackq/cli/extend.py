"""``ackq extend``."""

from __future__ import annotations

import click

from ackq.cli.options import examples, seconds_option
from ackq.cli.output import print_count
from ackq.cli.queues import on_queue, open_list
from ackq.cli.receipts import messages_of, settled_argument


@click.command(epilog=examples("ackq extend jobs a-1 1795252215312092 --lease 300"))
@on_queue
@settled_argument
@seconds_option(
    "--lease",
    default=30.0,
    help="New length of the leases, from now.  [30]",
)
def extend(queue: str, url: str | None, settled: tuple[str, ...], lease: float) -> None:
    """Extend leases by the KEY and RECEIPT that `ackq pop --json` printed.

    Prints the number of leases extended. The receipts stay valid. If a message is no longer in
    flight under its RECEIPT, the exit code is 3; the others are extended anyway.
    """
    messages = messages_of(queue, settled)
    with open_list(url, queue) as opened:
        print_count(opened.extend(*messages, timeout=lease), "lease", "extended")
