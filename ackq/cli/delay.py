"""``ackq delay``: delay queues."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ackq.cli import NOTHING, Group
from ackq.cli.options import (
    examples,
    json_option,
    lease_option,
    number_option,
    seconds_option,
    url_option,
    wait_option,
)
from ackq.cli.output import body_fields, id_fields, print_body, print_count, print_json

if TYPE_CHECKING:
    from ackq.delay.client import DelayQueue, PartitionedDelayQueue

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group)
def delay() -> None:
    """Work with delay queues: each message becomes ready at its own time.

    ackq stats, peek, dead, claims and purge take the name of a delay queue, too. A partition is
    named QUEUE:NUMBER.
    """


def _on_queue(command: F) -> F:
    partitions = click.option(
        "--partitions",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Number of partitions, the same for all clients.  [not partitioned]",
    )
    return click.argument("queue", metavar="QUEUE")(url_option(partitions(command)))


def _open(
    url: str | None, queue: str, partitions: int | None, **settings: Any
) -> DelayQueue | PartitionedDelayQueue:
    from ackq.delay.client import DelayQueue, PartitionedDelayQueue

    if partitions is None:
        return DelayQueue.from_url(url, queue, **settings)
    return PartitionedDelayQueue.from_url(url, queue, partitions, **settings)


@delay.command(epilog=examples("ackq delay push reminders order-7 'call Ada' --delay 3600"))
@_on_queue
@click.argument("key")
@click.argument("body")
@seconds_option(
    "--delay",
    "wait",
    default=0.0,
    help="Time until it is ready.  [0]",
)
def push(
    queue: str, url: str | None, partitions: int | None, key: str, body: str, wait: float
) -> None:
    """Store BODY under KEY in QUEUE until it is ready. Fails if KEY is already stored."""
    with _open(url, queue, partitions) as opened:
        opened.push(key, body, delay=wait)


@delay.command(epilog=examples("ackq delay take due --delete"))
@_on_queue
@number_option
@wait_option
@lease_option
@click.option("--delete", is_flag=True, help="Delete the messages after printing them.")
@json_option
@click.pass_context
def take(
    ctx: click.Context,
    queue: str,
    url: str | None,
    partitions: int | None,
    number: int,
    wait: float | None,
    lease: float,
    delete: bool,
    as_json: bool,
) -> None:
    """Take ready messages of QUEUE and print them. Exit code 1 if there are none."""
    with _open(url, queue, partitions, visibility_timeout=lease) as opened:
        messages = opened.take(number, wait)
        for message in messages:
            if as_json:
                print_json(
                    {
                        **id_fields(message.key, "key"),
                        "receive_count": message.receive_count,
                        "ready_time": message.ready_time,
                        **body_fields(message.body),
                    }
                )
            else:
                print_body(message.body)
        sys.stdout.flush()
        if delete:
            opened.delete(*messages)
    if not messages:
        ctx.exit(NOTHING)


@delay.command(epilog=examples("ackq delay cancel reminders order-7"))
@_on_queue
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
def cancel(queue: str, url: str | None, partitions: int | None, keys: tuple[str, ...]) -> None:
    """Delete messages of QUEUE by KEY.

    Messages in flight are not deleted. Prints the number deleted.
    """
    with _open(url, queue, partitions) as opened:
        print_count(opened.cancel(*keys), "message", "deleted")


@delay.command(epilog=examples("ackq delay reschedule due a --delay 60"))
@_on_queue
@click.argument("key")
@seconds_option(
    "--delay",
    "wait",
    required=True,
    help="Time from now until it is ready.",
)
@click.pass_context
def reschedule(
    ctx: click.Context, queue: str, url: str | None, partitions: int | None, key: str, wait: float
) -> None:
    """Change the time at which message KEY of QUEUE is ready.

    Exit code 1, without a change, if there is no such message or it is in flight.
    """
    with _open(url, queue, partitions) as opened:
        if not opened.reschedule(key, delay=wait):
            ctx.exit(NOTHING)
