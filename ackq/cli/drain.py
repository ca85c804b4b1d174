"""``ackq drain``."""

from __future__ import annotations

import click

from ackq.cli.confirmation import ask
from ackq.cli.options import examples, yes_option
from ackq.cli.output import print_count
from ackq.cli.progress import progress
from ackq.cli.queues import on_queue_end, open_list
from ackq.queue import inspection


@click.command(epilog=examples("ackq drain jobs --yes"))
@on_queue_end
@yes_option
def drain(queue: str, url: str | None, yes: bool) -> None:
    """Put in-flight and delayed messages back on the list QUEUE. Asks for confirmation.

    A bare RPOP can then take every message. Stop the consumers first: drain ends their leases, and
    the messages they are working on are redelivered. Delayed messages become ready at once, and
    receive counts are lost. Dead letters are not moved; `ackq dead redrive` them first.

    Prints the number of messages put back.
    """
    with open_list(url, queue) as opened:
        now = opened.stats()
        if not yes:
            ask(
                f"End the leases of {now.in_flight:,} messages of {queue}, and make"
                f" {now.delayed:,} delayed ones ready?",
                yes,
            )
        total = now.in_flight + now.delayed
        with progress("messages put back", total, "run it again to go on") as on_step:
            moved = opened.execute(inspection.drain, on_step)
        print_count(moved, "message", "put back")
