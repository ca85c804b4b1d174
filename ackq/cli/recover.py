"""``ackq recover``."""

from __future__ import annotations

import click

from ackq.cli.confirmation import ask
from ackq.cli.options import examples, yes_option
from ackq.cli.output import print_count
from ackq.cli.progress import progress
from ackq.cli.queues import on_queue
from ackq.cli.tables import print_table


@click.command(
    epilog=examples(
        "ackq recover jobs jobs:processing --dry-run", "ackq recover jobs jobs:processing --yes"
    )
)
@on_queue
@click.argument("lists", nargs=-1, required=True, metavar="PROCESSING_LIST...")
@click.option("--dry-run", is_flag=True, help="Only count the messages in each list.")
@yes_option
def recover(queue: str, url: str | None, lists: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Put messages left in processing lists back on QUEUE. Asks for confirmation.

    A processing list is where a consumer moves a message with RPOPLPUSH, BRPOPLPUSH, LMOVE or
    BLMOVE before it works on it. Stop these consumers first: a message that one of them is still
    working on would be delivered again.

    The messages become the next ones to be delivered, the oldest of each list first. Each is moved
    by one atomic command, so a crash neither loses nor doubles any; run the command again to go on.
    Prints the number that was put back.
    """
    from ackq.core.client import client_of
    from ackq.ops.recover import Recovery

    with client_of(url) as client, Recovery(client, queue) as recovery:
        counted = recovery.count(lists)
        if dry_run:
            print_table(("list", "messages"), counted.items())
            return
        total = sum(counted.values())
        ask(f"Put {total:,} messages from {', '.join(counted)} back on {queue}?", yes)
        with progress("put back", total, "run it again to go on") as on_step:
            moved = recovery.put_back(counted, on_step)
    print_count(moved, "message", "put back")
