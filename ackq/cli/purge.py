"""``ackq purge``."""

from __future__ import annotations

import click

from ackq.cli.confirmation import ask
from ackq.cli.options import examples, yes_option
from ackq.cli.output import print_count
from ackq.cli.queues import on_any_queue, open_any


@click.command(epilog=examples("ackq purge jobs --yes"))
@on_any_queue("purge")
@click.option("--dead", is_flag=True, help="Delete the dead letters, too.")
@yes_option
def purge(queue: str, url: str | None, dead: bool, yes: bool) -> None:
    """Delete every message of QUEUE permanently, in flight too. Asks for confirmation.

    Prints the number of messages deleted. The markers of pushes with dedup= stay until their
    windows end.
    """
    with open_any(url, queue, "purge") as opened:
        if not yes:
            now = opened.client.stats()
            waiting = f"{now.ready:,} ready, {now.in_flight:,} in flight, {now.delayed:,} delayed"
            letters = f", {now.dead:,} dead" if dead else ""
            ask(f"Delete every message of {queue}: {waiting}{letters}?", yes)
        print_count(opened.client.purge(dead=dead), "message", "deleted")
