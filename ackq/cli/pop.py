"""``ackq pop``."""

from __future__ import annotations

import sys

import click

from ackq.cli import NOTHING
from ackq.cli.connection import (
    WAIT_HELP,
    body_fields,
    examples,
    json_option,
    key_to_text,
    number_option,
    on_queue,
    open_queue,
    print_body,
    print_json,
    seconds,
)
from ackq.queue.client import Queue
from ackq.queue.messages import Message


@click.command(
    epilog=examples(
        "ackq pop jobs", "ackq pop jobs -n 10 --json --lease 300", "ackq pop jobs --wait 5 --ack"
    )
)
@on_queue
@number_option
@click.option("--wait", type=float, callback=seconds, metavar="SECONDS", help=WAIT_HELP)
@click.option("--lease", type=float, callback=seconds, default=30.0, metavar="SECONDS",
              help="How long they are yours; then they come back.  [30]")  # fmt: skip
@click.option("--ack", is_flag=True, help="Settle each once it is printed.")
@json_option
@click.pass_context
def pop(
    ctx: click.Context, queue: str, url: str | None, number: int, wait: float | None,
    lease: float, ack: bool, as_json: bool,
) -> None:  # fmt: skip
    """Take messages from QUEUE and print their bodies, a line each.

    With --json also the key and the receipt that `ackq ack` settles them by. What is not settled
    comes back when its lease ends. With --ack a message is settled after it was written: it may
    be printed twice if this command dies in between, and is never lost.

    A pipe or a file gets each body byte for byte. In a terminal, control characters are shown as
    escapes such as \\x1b, as every command shows what messages carry.
    """
    left = number
    with open_queue(url, queue, visibility_timeout=lease) as opened:
        while left and (messages := opened.pop_many(left, timeout=wait)):
            print_messages(messages, as_json)
            if ack:
                settle(opened, messages)
            left -= len(messages)
            wait = None
    if left == number:
        ctx.exit(NOTHING)


def print_messages(messages: list[Message], as_json: bool, named: bool = False) -> None:
    """Print messages a line each; as JSON with what settles them, ``named`` with their queue."""
    for message in messages:
        if as_json:
            print_json({
                **({"queue": message.queue} if named else {}),
                "id": message.id, "key": key_to_text(message.key), "receipt": message.receipt,
                "receive_count": message.receive_count,
                "lease_expires_at": message.lease_expires_at, **body_fields(message.body),
            })  # fmt: skip
        else:
            print_body(message.body)


def settle(queue: Queue, messages: list[Message]) -> None:
    """Settle what was printed, and only once it has really left this process."""
    sys.stdout.flush()
    queue.ack(*messages)
