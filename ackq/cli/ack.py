"""``ackq ack``."""

from __future__ import annotations

import click

from ackq.cli.connection import key_from_text, on_queue, open_queue
from ackq.message import Message


@click.command()
@on_queue
@click.argument("settled", nargs=-1, required=True, metavar="KEY RECEIPT [KEY RECEIPT]...")
def ack(queue: str, url: str | None, settled: tuple[str, ...]) -> None:
    """Settle messages by KEY and RECEIPT as `ackq pop --json` printed them.

    Prints how many there were; one that was settled before counts 0. If another consumer holds
    one by now it is refused (exit code 3), and the others are settled all the same.
    """
    if len(settled) % 2:
        raise click.UsageError("each KEY needs a RECEIPT")
    messages = [
        Message(queue, key_from_text(key), b"", _receipt(receipt), 1)
        for key, receipt in zip(settled[::2], settled[1::2], strict=True)
    ]
    with open_queue(url, queue) as opened:
        click.echo(opened.ack(*messages))


def _receipt(text: str) -> int:
    try:
        receipt = int(text)
    except ValueError:
        receipt = -1
    if not 0 <= receipt < 2**53:
        raise click.UsageError(f"{text!r} is not a RECEIPT")
    return receipt
