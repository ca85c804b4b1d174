"""``ackq sharded``: queues sharded over several nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ackq.cli import NOTHING, Group
from ackq.cli.groups import Settings
from ackq.cli.options import (
    examples,
    json_option,
    lease_option,
    number_option,
    seconds_option,
    url_option,
)
from ackq.cli.output import print_body, print_json
from ackq.cli.pop import print_messages, settle
from ackq.cli.queues import open_shards, pop_from_option
from ackq.errors import GroupsMismatch
from ackq.queue.client import Queue
from ackq.queue.messages import Message

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group)
def sharded() -> None:
    """Work with sharded queues: many list queues as one.

    ackq work, push, stats, peek, delayed, dead, move, pause, resume, purge, workers, top, exporter
    and web take the name of a sharded queue like that of any other queue. Use other commands on a
    single shard, whose name `ackq sharded shards` prints, as in ackq audit '{jobs:0.3}'.
    """


def _on_shards(command: F) -> F:
    option = click.option(
        "--shards",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Number of shards; creates a new queue.  [as recorded]",
    )
    return click.argument("name")(url_option(option(pop_from_option(command))))


@sharded.command(
    epilog=examples(
        "ackq sharded create invoices --shards 12",
        "ackq sharded create accounts --shards 12 --groups field=customer",
    )
)
@click.argument("name")
@click.option(
    "--shards", type=click.IntRange(1, 1024), required=True, metavar="N", help="Number of shards."
)
@click.option(
    "--groups",
    type=Settings(),
    metavar="NAME=VALUE,…",
    help="Give it groups, as ackq groups --on does: a message's group decides its shard."
    "  [no groups]",
)
@url_option
def create(name: str, shards: int | None, groups: dict[str, Any] | None, url: str | None) -> None:
    """Create sharded queue NAME. If it exists with these settings, nothing changes."""
    with open_shards(url, name, shards, **(groups or {})) as opened:
        print_body(f"{name}: {len(opened.shards())} shards")


@sharded.command("resize", epilog=examples("ackq sharded resize orders 3"))
@click.argument("name")
@click.argument("shards", type=click.IntRange(1, 1024))
@url_option
def resize_shards(name: str, shards: int, url: str | None) -> None:
    """Change the number of shards of NAME to SHARDS.

    Producers and consumers may go on. Consumers empty the former shards, which are then closed.
    """
    with open_shards(url, name) as opened:
        opened.resize(shards)
    print_body(f"{name}: {shards} shards")


@sharded.command("shards", epilog=examples("ackq sharded shards orders"))
@_on_shards
@json_option
def list_shards(name: str, url: str | None, shards: int | None, as_json: bool) -> None:
    """Print the names of the shards of NAME.

    Each shard is a list queue, to which plain clients push.
    """
    with open_shards(url, name, shards) as opened:
        for queue in opened.shards():
            if as_json:
                print_json({"queue": queue.name})
            else:
                print_body(queue.name)


@sharded.command(
    epilog=examples("""ackq sharded push orders '{"order": 7}' --shards 2 --key customer-3""")
)
@_on_shards
@click.argument("json", nargs=-1, required=True)
@click.option("--key", help="Messages with one key go to one shard.  [shards in turn]")
@seconds_option(
    "--delay",
    help="Time until they become ready.  [0]",
)
def push(
    name: str,
    url: str | None,
    shards: int | None,
    json: tuple[str, ...],
    key: str | None,
    delay: float | None,
) -> None:
    """Push JSON objects onto sharded queue NAME and print their ids."""
    from ackq.cli.push import objects

    with open_shards(url, name, shards) as opened:
        for id in opened.push_many(objects(json), key=key, delay=delay):
            print_body(id)


@sharded.command(
    epilog=examples("ackq sharded pop orders -n 10 --json", "ackq sharded pop orders --ack")
)
@_on_shards
@number_option
@lease_option
@click.option("--ack", is_flag=True, help="Acknowledge the messages after printing them.")
@json_option
@click.pass_context
def pop(
    ctx: click.Context,
    name: str,
    url: str | None,
    shards: int | None,
    number: int,
    lease: float,
    ack: bool,
    as_json: bool,
) -> None:
    """Take messages from sharded queue NAME, shard by shard. Exit code 1 if there are none.

    It does not join the consumer group, so no shard changes its owner. --json also prints the
    shard (as queue), the key and the receipt, which `ackq ack` needs.
    """
    left = number
    with open_shards(url, name, shards, visibility_timeout=lease) as opened:
        for queue in opened.shards():
            while left and (messages := _taken(queue, left)):
                print_messages(messages, as_json, named=True)
                if ack:
                    settle(queue, messages)
                left -= len(messages)
    if left == number:
        ctx.exit(NOTHING)


def _taken(queue: Queue, number: int) -> list[Message]:
    """Take messages of a shard; none of one that waits for former shards."""
    try:
        return queue.pop_many(number)
    except GroupsMismatch:
        return []
