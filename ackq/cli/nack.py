"""``ackq nack``."""

from __future__ import annotations

import click

from ackq.cli.connection import examples, on_queue, open_queue, seconds
from ackq.cli.settled import messages_of, settled_argument


@click.command(
    epilog=examples(
        "ackq nack jobs a-1 1795252215312092 --delay 60",
        "ackq nack jobs a-1 1795252215312092 --release",
        "ackq nack jobs a-1 1795252215312092 --dead 'no such customer'",
    )
)
@on_queue
@settled_argument
@click.option("--delay", type=float, callback=seconds, metavar="SECONDS",
              help="When they may be delivered again.  [1]")  # fmt: skip
@click.option("--release", is_flag=True, help="At once, as if they had not been taken.")
@click.option("--dead", metavar="REASON", help="Not again: to the dead letters, with a REASON.")
def nack(
    queue: str, url: str | None, settled: tuple[str, ...], delay: float | None, release: bool,
    dead: str | None,
) -> None:  # fmt: skip
    """Give messages back by KEY and RECEIPT as `ackq pop --json` printed them.

    Prints how many there were. One that is not in flight under its RECEIPT is refused (exit code
    3), and the others are given back all the same.
    """
    if (delay is not None) + release + (dead is not None) > 1:
        raise click.UsageError("give one of --delay, --release and --dead")
    messages = messages_of(queue, settled)
    with open_queue(url, queue) as opened:
        if release:
            click.echo(opened.release(*messages))
        elif dead is not None:
            click.echo(opened.reject(*messages, reason=dead))
        else:
            click.echo(opened.nack(*messages, delay=1.0 if delay is None else delay))
