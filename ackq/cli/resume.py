"""``ackq resume``."""

from __future__ import annotations

import click

from ackq.cli.options import examples
from ackq.cli.queues import on_queue, open_any


@click.command(epilog=examples("ackq resume jobs"))
@on_queue
def resume(queue: str, url: str | None) -> None:
    """Resume QUEUE after a pause. Consumers notice within half a second."""
    with open_any(url, queue, "pause") as opened:
        opened.client.resume()
