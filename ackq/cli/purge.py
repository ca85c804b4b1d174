"""``ackq purge``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ackq.cli.connection import ask, examples, on_queue_end, open_any, yes_option

if TYPE_CHECKING:
    from ackq.delay.messages import DelayStats
    from ackq.queue.messages import QueueStats


@click.command(epilog=examples("ackq purge jobs --yes"))
@on_queue_end
@click.option("--dead", is_flag=True, help="Delete the dead letters, too.")
@yes_option
def purge(queue: str, url: str | None, dead: bool, yes: bool) -> None:
    """Delete every message of QUEUE permanently, in flight too. Asks for confirmation.

    Prints the number deleted. The markers of pushes with dedup= stay until their windows end.
    """
    with open_any(url, queue) as opened:
        ask_to_purge(queue, opened.stats, dead, yes)
        click.echo(opened.purge(dead=dead))


def ask_to_purge(
    name: str, stats: Callable[[], QueueStats | DelayStats], dead: bool, yes: bool
) -> None:
    """Show the current counts and ask for confirmation, unless --yes was given."""
    if yes:
        return
    now = stats()
    waiting = f"{now.ready:,} ready, {now.in_flight:,} in flight, {now.delayed:,} delayed"
    letters = f", {now.dead:,} dead" if dead else ""
    ask(f"Delete every message of {name}: {waiting}{letters}?", yes)
