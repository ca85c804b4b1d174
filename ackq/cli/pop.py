"""``ackq pop``."""

from __future__ import annotations

import sys

import click

from ackq.cli import NOTHING
from ackq.cli.options import examples, json_option, lease_option, number_option, wait_option
from ackq.cli.output import body_fields, print_body, print_json
from ackq.cli.queues import on_queue_end, open_list
from ackq.cli.receipts import key_to_text
from ackq.queue.client import Queue
from ackq.queue.messages import Message


@click.command(
    epilog=examples(
        "ackq pop jobs", "ackq pop jobs -n 10 --json --lease 300", "ackq pop jobs --timeout 5 --ack"
    )
)
@on_queue_end
@number_option
@wait_option
@lease_option
@click.option("--ack", is_flag=True, help="Acknowledge the messages after printing them.")
@json_option
@click.pass_context
def pop(
    ctx: click.Context,
    queue: str,
    url: str | None,
    number: int,
    wait: float | None,
    lease: float,
    ack: bool,
    as_json: bool,
) -> None:
    """Take messages from QUEUE and print their bodies, one per line.

    --json also prints the key and the receipt, which `ackq ack` needs. A message that is not
    settled is redelivered when its lease ends. With --ack, messages are acknowledged after they
    are written: if the command dies in between, they are printed again, but never lost.

    In a terminal, control characters are shown as escapes such as \\x1b, here and in all commands.
    Pipes and files get the exact bytes.
    """
    left = number
    with open_list(url, queue, visibility_timeout=lease) as opened:
        while left and (messages := opened.pop_many(left, timeout=wait)):
            print_messages(messages, as_json)
            if ack:
                settle(opened, messages)
            left -= len(messages)
            wait = None
    if left == number:
        ctx.exit(NOTHING)


def print_messages(messages: list[Message], as_json: bool, named: bool = False) -> None:
    """Print one message per line. JSON includes key and receipt, and if ``named`` the queue."""
    for message in messages:
        if as_json:
            print_json(
                {
                    **({"queue": message.queue} if named else {}),
                    "id": message.id,
                    "key": key_to_text(message.key),
                    "receipt": message.receipt,
                    "receive_count": message.receive_count,
                    "lease_expires_at": message.lease_expires_at,
                    **body_fields(message.body),
                }
            )
        else:
            print_body(message.body)


def settle(queue: Queue, messages: list[Message]) -> None:
    """Flush stdout, then acknowledge the printed messages."""
    sys.stdout.flush()
    queue.ack(*messages)
