"""``ackq peek``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from ackq.cli.connection import (
    body_fields,
    examples,
    id_fields,
    json_option,
    print_json,
    print_table,
    short_time,
    time_field_option,
)
from ackq.cli.queues import on_any_queue, open_any, part_column
from ackq.core.inspection_results import PeekedMessage, State


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
@time_field_option
@json_option
def peek(
    queue: str, url: str | None, number: int, state: State, time_field: str | None, as_json: bool
) -> None:
    """Show messages of QUEUE in delivery order, without taking them.

    Messages of a sharded queue are shown shard by shard, and those of a partitioned delay queue
    partition by partition.
    """
    messages: list[PeekedMessage] = []
    names: list[str] = []
    with open_any(url, queue, "peek", time_field=time_field) as opened:
        for part in opened.parts():
            messages += part.peek(number - len(messages), state)
            names += [part.name] * (len(messages) - len(names))
    if as_json:
        for each, name in zip(messages, names, strict=True):
            print_json(
                {
                    **({"queue": name} if opened.divided else {}),
                    **id_fields(each.id),
                    "receive_count": each.receive_count,
                    "at": each.at,
                    "created_at": each.created_at,
                    "errors": [asdict(error) for error in each.errors],
                    **body_fields(each.body),
                }
            )
        return
    columns: dict[str, Sequence[object]] = {
        **part_column(opened, names),
        "id": [each.id for each in messages],
        "receives": [each.receive_count for each in messages],
        "created": [short_time(each.created_at) for each in messages],
        "lease ends" if state == "in_flight" else "due": [short_time(each.at) for each in messages],
        "body": [each.body for each in messages],
    }
    if not any(each.created_at for each in messages):
        del columns["created"]
    print_table(tuple(columns), [*zip(*columns.values(), strict=True)])
