"""``ackq drain``."""

from __future__ import annotations

import click

from ackq.cli.connection import ask, examples, on_queue, open_queue, yes_option


@click.command(epilog=examples("ackq drain jobs --yes"))
@on_queue
@yes_option
def drain(queue: str, url: str | None, yes: bool) -> None:
    """Put everything that is in flight or delayed back on the list QUEUE. It asks first.

    A bare RPOP can then take every message. Stop the consumers first: their leases end, and what
    they are working on is delivered again. Delayed messages become ready at once, and receive
    counts are forgotten. Dead letters stay where they are; `ackq dead redrive` them before.

    Prints how many messages were put back.
    """
    with open_queue(url, queue) as opened:
        if not yes:
            now = opened.stats()
            ask(f"End the leases of {now.in_flight:,} messages of {queue}, and make"
                f" {now.delayed:,} delayed ones ready?", yes)  # fmt: skip
        click.echo(opened.drain())
