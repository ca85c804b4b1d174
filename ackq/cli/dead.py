"""``ackq dead``."""

from __future__ import annotations

import click

from ackq.cli.connection import (
    body_fields,
    json_option,
    local_time,
    on_queue,
    open_queue,
    print_json,
    print_table,
)


@click.command()
@on_queue
@click.option("-n", "--number", type=click.IntRange(0), default=10, help="How many.  [10]")
@json_option
def dead(queue: str, url: str | None, number: int, as_json: bool) -> None:
    """Read the dead letters of QUEUE, oldest first. They stay."""
    with open_queue(url, queue) as opened:
        letters = opened.dead_letters(number)
    if as_json:
        for each in letters:
            print_json({"entry": each.entry, "id": each.id, "reason": each.reason,
                        "receive_count": each.receive_count, "died_at": each.died_at,
                        **body_fields(each.body)})  # fmt: skip
        return
    print_table(
        ("entry", "id", "reason", "receives", "died", "body"),
        [
            (each.entry, each.id, each.reason, each.receive_count, local_time(each.died_at),
             each.body)
            for each in letters
        ],
    )  # fmt: skip
