"""The KEY and RECEIPT of messages, as pop prints them and ack, nack and extend take them."""

from __future__ import annotations

from urllib.parse import quote_from_bytes, unquote_to_bytes

import click

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


def key_to_text(key: bytes) -> str:
    """Return a lease key as a command-line argument, percent-encoded where necessary."""
    return quote_from_bytes(key, safe="/:@+=,~ ")


def key_from_text(text: str) -> bytes:
    """Return the lease key that `key_to_text` encoded."""
    return unquote_to_bytes(text)
