"""``ackq delay``: delay queues."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ackq.cli import NOTHING, Group
from ackq.cli.causes import NUMBER, causes_option, dead_number_option, print_causes
from ackq.cli.chosen import cause_option, entries_argument, with_cause
from ackq.cli.claims import group_option, groups_of, print_claims
from ackq.cli.connection import (
    WAIT_HELP,
    ask,
    body_fields,
    examples,
    json_option,
    key_fields,
    number_option,
    print_body,
    print_json,
    print_table,
    seconds,
    short_time,
    url_option,
    yes_option,
)
from ackq.cli.dead import reason_of
from ackq.cli.purge import ask_to_purge
from ackq.cli.stats import shown, total_fields, total_rows, totals_option
from ackq.core.counters import LONGEST_WATCH
from ackq.core.inspected import DeadLetter, State
from ackq.ops.causes import every

if TYPE_CHECKING:
    from ackq.delay.client import DelayQueue, PartitionedDelayQueue

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group)
def delay() -> None:
    """Work with delay queues: each message becomes ready at its own time."""


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
@click.option(
    "--delay",
    "wait",
    type=float,
    callback=seconds,
    default=0.0,
    metavar="SECONDS",
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
@click.option("--wait", type=float, callback=seconds, metavar="SECONDS", help=WAIT_HELP)
@click.option(
    "--lease",
    type=float,
    callback=seconds,
    default=30.0,
    metavar="SECONDS",
    help="Time until they are delivered again.  [30]",
)
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
        found = opened.take(number, wait)
        for each in found:
            if as_json:
                print_json(
                    {
                        **key_fields(each.key),
                        "receive_count": each.receive_count,
                        "ready_time": each.ready_time,
                        **body_fields(each.body),
                    }
                )
            else:
                print_body(each.body)
        sys.stdout.flush()
        if delete:
            opened.delete(*found)
    if not found:
        ctx.exit(NOTHING)


@delay.command(epilog=examples("ackq delay cancel reminders order-7"))
@_on_queue
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
def cancel(queue: str, url: str | None, partitions: int | None, keys: tuple[str, ...]) -> None:
    """Delete messages of QUEUE by KEY.

    Messages in flight are not deleted. Prints the number deleted.
    """
    with _open(url, queue, partitions) as opened:
        click.echo(opened.cancel(*keys))


@delay.command(epilog=examples("ackq delay reschedule due a --delay 60"))
@_on_queue
@click.argument("key")
@click.option(
    "--delay",
    "wait",
    type=float,
    callback=seconds,
    required=True,
    metavar="SECONDS",
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


@delay.command(epilog=examples("ackq delay stats reminders", "ackq delay stats reminders --totals"))
@_on_queue
@totals_option
@json_option
def stats(queue: str, url: str | None, partitions: int | None, totals: bool, as_json: bool) -> None:
    """Count the messages of QUEUE by state."""
    with _open(url, queue, partitions) as opened:
        found = asdict(opened.stats())
        counted = opened.counters(LONGEST_WATCH) if totals else None
    if as_json:
        print_json(found | ({"totals": total_fields(counted)} if counted else {}))
        return
    rows = [(name, shown(value)) for name, value in found.items()]
    print_table(("", queue), [*rows, *(total_rows(counted) if counted else ())])


@delay.command(epilog=examples("ackq delay peek reminders --state delayed -n 3"))
@_on_queue
@click.option(
    "-n", "--number", type=click.IntRange(0), default=10, help="Number of messages.  [10]"
)
@click.option(
    "--state",
    type=click.Choice(["ready", "in_flight", "delayed"]),
    default="ready",
    help="State of the messages.  [ready]",
)
@json_option
def peek(
    queue: str, url: str | None, partitions: int | None, number: int, state: State, as_json: bool
) -> None:
    """Show messages of QUEUE without taking them.

    Within a partition, the earliest comes first.
    """
    with _open(url, queue, partitions) as opened:
        found = opened.peek(number, state)
    if as_json:
        for each in found:
            print_json(
                {
                    **key_fields(each.id),
                    "receive_count": each.receive_count,
                    "at": each.at,
                    **body_fields(each.body),
                }
            )
        return
    print_table(
        ("key", "receives", "lease ends" if state == "in_flight" else "ready", "body"),
        [(each.id, each.receive_count, short_time(each.at), each.body) for each in found],
    )


_partition_option = click.option(
    "--partition",
    type=click.IntRange(0),
    metavar="N",
    help="Only the dead letters of this partition. Entries need it if there are several.",
)


@delay.command(epilog=examples("ackq delay dead reminders", "ackq delay dead reminders --causes"))
@_on_queue
@_partition_option
@dead_number_option
@causes_option
@json_option
def dead(
    queue: str,
    url: str | None,
    partitions: int | None,
    partition: int | None,
    number: int | None,
    causes: bool,
    as_json: bool,
) -> None:
    """List the dead letters of QUEUE, or count them by cause.

    Oldest first within a partition. The reason includes the cause, if the consumer recorded an
    error: its type, and the line that raised it. --json has the last five errors of each message in
    full.
    """
    with _open(url, queue, partitions) as opened:
        if causes:
            parts = _parts(partitions, partition)
            found = chain.from_iterable(every(partial(_read, opened, part), None) for part in parts)
            print_causes(found, number, as_json)
            return
        letters = opened.dead_letters(NUMBER if number is None else number, partition=partition)
    if as_json:
        for each in letters:
            print_json(
                {
                    "entry": each.entry,
                    **key_fields(each.id),
                    "reason": each.reason,
                    "receive_count": each.receive_count,
                    "died_at": each.died_at,
                    "cause": each.cause,
                    "errors": [asdict(error) for error in each.errors],
                    **body_fields(each.body),
                }
            )
        return
    print_table(
        ("entry", "key", "reason", "receives", "died", "body"),
        [
            (
                each.entry,
                each.id,
                reason_of(each),
                each.receive_count,
                short_time(each.died_at),
                each.body,
            )
            for each in letters
        ],
    )


@delay.command(
    epilog=examples(
        "ackq delay redrive reminders -n 100",
        "ackq delay redrive reminders 1795252215312-0",
        "ackq delay redrive reminders --cause 'no such customer'",
    )
)
@_on_queue
@_partition_option
@entries_argument
@click.option(
    "-n", "--number", type=click.IntRange(0), help="Number to redrive, oldest first.  [all]"
)
@cause_option
def redrive(
    queue: str,
    url: str | None,
    partitions: int | None,
    partition: int | None,
    entries: tuple[str, ...],
    number: int | None,
    cause: str | None,
) -> None:
    """Make dead letters of QUEUE ready again.

    All of them, some of the oldest, or those that you choose. A dead letter stays if a new message
    has its key. Prints the number redriven.
    """
    if bool(entries) + (number is not None) + (cause is not None) > 1:
        raise click.UsageError("give ENTRIES, --number or --cause")
    with _open(url, queue, partitions) as opened:
        if cause is None:
            click.echo(opened.redrive(number, entries=entries, partition=partition))
            return
        chosen = _with_cause(opened, partitions, partition, cause)
        click.echo(sum(opened.redrive(0, entries=found, partition=part) for part, found in chosen))


@delay.command(
    "drop-dead",
    epilog=examples(
        "ackq delay drop-dead reminders 1795252215312-0",
        "ackq delay drop-dead reminders --cause 'no such customer' --yes",
    ),
)
@_on_queue
@_partition_option
@entries_argument
@cause_option
@yes_option
def drop_dead(
    queue: str,
    url: str | None,
    partitions: int | None,
    partition: int | None,
    entries: tuple[str, ...],
    cause: str | None,
    yes: bool,
) -> None:
    """Delete dead letters of QUEUE permanently. --cause asks for confirmation.

    Prints the number deleted.
    """
    if bool(entries) + (cause is not None) != 1:
        raise click.UsageError("give ENTRIES or --cause")
    with _open(url, queue, partitions) as opened:
        chosen: Sequence[tuple[int | None, Sequence[str]]] = [(partition, entries)]
        if cause is not None:
            chosen = _with_cause(opened, partitions, partition, cause)
            count = sum(len(found) for _, found in chosen)
            ask(f"Delete {count:,} dead letters of {queue} with this cause?", yes)
        click.echo(sum(opened.drop_dead_letters(*found, partition=part) for part, found in chosen))


def _with_cause(
    opened: DelayQueue | PartitionedDelayQueue,
    partitions: int | None,
    partition: int | None,
    cause: str,
) -> list[tuple[int | None, Sequence[str]]]:
    """Return the entries with this cause, of each partition."""

    return [
        (part, with_cause(partial(_read, opened, part), cause))
        for part in _parts(partitions, partition)
    ]


def _parts(partitions: int | None, partition: int | None) -> Iterable[int]:
    return range(partitions or 1) if partition is None else [partition]


def _read(
    opened: DelayQueue | PartitionedDelayQueue, part: int, n: int, after: str | None
) -> Sequence[DeadLetter]:
    return opened.dead_letters(n, after=after, partition=part)


@delay.command(epilog=examples("ackq delay purge reminders --yes"))
@_on_queue
@click.option("--dead", is_flag=True, help="Delete the dead letters, too.")
@yes_option
def purge(queue: str, url: str | None, partitions: int | None, dead: bool, yes: bool) -> None:
    """Delete every message of QUEUE permanently, in flight too. Asks for confirmation.

    Prints the number deleted.
    """
    with _open(url, queue, partitions) as opened:
        ask_to_purge(queue, opened.stats, dead, yes)
        click.echo(opened.purge(dead=dead))


@delay.command(epilog=examples("ackq delay claims reminders"))
@_on_queue
@group_option
@json_option
def claims(
    queue: str, url: str | None, partitions: int | None, group: str | None, as_json: bool
) -> None:
    """List the claims of queries, such as Spark queries, on QUEUE.

    A claim is a batch of messages that a query has leased and not finished.
    """
    with _open(url, queue, partitions) as opened:
        found = [each for each in opened.claims() if group in (None, each.group)]
    print_claims(found, as_json)


@delay.command(epilog=examples("ackq delay release-claims reminders --group nightly --yes"))
@_on_queue
@group_option
@yes_option
def release_claims(
    queue: str, url: str | None, partitions: int | None, group: str | None, yes: bool
) -> None:
    """Return claimed messages to QUEUE. Asks for confirmation.

    They are ready since their former times, so they keep their order. Use it for queries that are
    dead and will not be restarted. A query that still runs stops with an error, and its messages
    are redelivered. Prints the number of messages returned.
    """
    with _open(url, queue, partitions) as opened:
        found = [each for each in opened.claims() if group in (None, each.group)]
        groups = groups_of(found, yes) if found else []
        click.echo(sum(opened.release_claims(each) for each in groups))
