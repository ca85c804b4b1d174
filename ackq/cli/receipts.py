"""The arguments of ack, nack and extend: the KEY and RECEIPT of each message."""

from __future__ import annotations

import click

from ackq.cli.connection import key_from_text
from ackq.queue.messages import Message

settled_argument = click.argument(
    "settled", nargs=-1, required=True, metavar="KEY RECEIPT [KEY RECEIPT]..."
)


def messages_of(queue: str, settled: tuple[str, ...]) -> list[Message]:
    """Return the messages for pairs of KEY and RECEIPT."""
    if len(settled) % 2:
        raise click.UsageError("each KEY needs a RECEIPT")
    return [
        Message(queue, key_from_text(key), b"", _receipt(receipt), 1)
        for key, receipt in zip(settled[::2], settled[1::2], strict=True)
    ]


def _receipt(text: str) -> int:
    try:
        receipt = int(text)
    except ValueError:
        receipt = -1
    if not 0 <= receipt < 2**53:
        raise click.UsageError(f"{text!r} is not a RECEIPT")
    return receipt
