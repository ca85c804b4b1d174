"""``ackq pause``."""

from __future__ import annotations

import click

from ackq.cli.options import examples
from ackq.cli.queues import on_queue, open_any


@click.command(epilog=examples("ackq pause jobs"))
@on_queue
def pause(queue: str, url: str | None) -> None:
    """Pause QUEUE: no consumer takes messages until `ackq resume`.

    Pushing and settling still work. A bare RPOP ignores the pause.
    """
    with open_any(url, queue, "pause") as opened:
        opened.client.pause()
