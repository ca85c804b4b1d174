"""``ackq peek``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from ackq.cli.options import examples, json_option, time_field_option
from ackq.cli.output import body_fields, id_fields, print_json
from ackq.cli.queues import on_any_queue, open_any, part_column
from ackq.cli.tables import print_table
from ackq.cli.times import short_time
from ackq.core.inspection_results import PeekedMessage, State
from ackq.ops.kinds.lists import LIST, SHARDED


@click.command(epilog=examples("ackq peek jobs -n 3", "ackq peek jobs --state in_flight --json"))
@on_any_queue("peek")
@click.option(
    "-n", "--number", type=click.IntRange(0), default=10, help="Number of messages.  [10]"
)
@click.option(
    "--state",
    type=click.Choice(["ready", "in_flight", "delayed"]),
    default="ready",
    help="State of the messages.  [ready]",
)
@click.option(
    "--group",
    metavar="GROUP",
    help="Only the messages of GROUP that consumers have moved aside, of a queue with groups.",
)
@time_field_option
@json_option
def peek(
    queue: str,
    url: str | None,
    number: int,
    state: State,
    group: str | None,
    time_field: str | None,
    as_json: bool,
) -> None:
    """Show messages of QUEUE in delivery order, without taking them.

    Messages of a sharded queue are shown shard by shard, and those of a partitioned delay queue
    partition by partition.
    """
    messages: list[PeekedMessage] = []
    names: list[str] = []
    with open_any(url, queue, "peek", time_field=time_field) as opened:
        if group is not None and opened.kind not in (LIST, SHARDED):
            raise click.UsageError("only list queues and sharded queues have groups")
        chosen = {} if group is None else {"group": group}
        for part in opened.parts():
            messages += part.peek(number - len(messages), state, **chosen)
            names += [part.name] * (len(messages) - len(names))
    if as_json:
        for message, name in zip(messages, names, strict=True):
            print_json(
                {
                    **({"queue": name} if opened.divided else {}),
                    **id_fields(message.id),
                    "receive_count": message.receive_count,
                    "canceled": message.canceled,
                    "at": message.at,
                    "created_at": message.created_at,
                    "errors": [asdict(error) for error in message.errors],
                    **body_fields(message.body),
                }
            )
        return
    columns: dict[str, Sequence[object]] = {
        **part_column(opened, names),
        "id": [message.id for message in messages],
        "receives": [message.receive_count for message in messages],
        "created": [short_time(message.created_at) for message in messages],
        "lease ends" if state == "in_flight" else "due": [
            short_time(message.at) for message in messages
        ],
        "canceled": ["canceled" if message.canceled else "" for message in messages],
        "body": [message.body for message in messages],
    }
    if not any(message.canceled for message in messages):
        del columns["canceled"]
    if not any(message.created_at for message in messages):
        del columns["created"]
    print_table(tuple(columns), [*zip(*columns.values(), strict=True)])
