"""``ackq nack``."""

from __future__ import annotations

import click

from ackq.cli.options import examples, seconds_option
from ackq.cli.output import print_count
from ackq.cli.queues import on_queue, open_list
from ackq.cli.receipts import messages_of, settled_argument


@click.command(
    epilog=examples(
        "ackq nack jobs a-1 1795252215312092 --delay 60",
        "ackq nack jobs a-1 1795252215312092 --release",
        "ackq nack jobs a-1 1795252215312092 --dead 'no such customer'",
    )
)
@on_queue
@settled_argument
@seconds_option(
    "--delay",
    help="Time until they may be redelivered.  [1]",
)
@click.option("--release", is_flag=True, help="Return them at once; the delivery does not count.")
@click.option("--dead", metavar="REASON", help="Move them to the dead letters, with a REASON.")
def nack(
    queue: str,
    url: str | None,
    settled: tuple[str, ...],
    delay: float | None,
    release: bool,
    dead: str | None,
) -> None:
    """Return messages by the KEY and RECEIPT that `ackq pop --json` printed.

    Prints the number of messages returned. If a message is no longer in flight under its RECEIPT,
    the exit code is 3; the others are returned anyway.
    """
    if (delay is not None) + release + (dead is not None) > 1:
        raise click.UsageError("give one of --delay, --release and --dead")
    messages = messages_of(queue, settled)
    with open_list(url, queue) as opened:
        if release:
            returned = opened.release(*messages)
        elif dead is not None:
            returned = opened.reject(*messages, reason=dead)
        else:
            returned = opened.nack(*messages, delay=1.0 if delay is None else delay)
    print_count(returned, "message", "returned" if dead is None else "rejected")
