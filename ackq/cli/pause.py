"""``ackq pause``."""

from __future__ import annotations

import click

from ackq.cli.connection import examples, on_queue, open_queue


@click.command(epilog=examples("ackq pause jobs"))
@on_queue
def pause(queue: str, url: str | None) -> None:
    """Let no consumer take anything from QUEUE until `ackq resume`.

    Pushing and settling go on. A bare RPOP knows nothing of it.
    """
    with open_queue(url, queue) as opened:
        opened.pause()
