"""``ackq purge``."""

from __future__ import annotations

import click

from ackq.cli.connection import ask, examples, on_queue, open_queue, yes_option


@click.command(epilog=examples("ackq purge jobs --yes"))
@on_queue
@click.option("--dead", is_flag=True, help="The dead letters too.")
@yes_option
def purge(queue: str, url: str | None, dead: bool, yes: bool) -> None:
    """Delete every message of QUEUE, in flight too. They are lost. It asks first.

    Prints how many there were. What was pushed once with a marker stays marked until its window
    ends.
    """
    with open_queue(url, queue) as opened:
        if not yes:
            now = opened.stats()
            waiting = f"{now.ready:,} ready, {now.in_flight:,} in flight, {now.delayed:,} delayed"
            letters = f", {now.dead:,} dead" if dead else ""
            ask(f"Delete every message of {queue}: {waiting}{letters}?", yes)
        click.echo(opened.purge(dead=dead))
