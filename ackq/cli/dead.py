"""``ackq dead``: list, show, redrive and drop dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from ackq.cli import NOTHING, Group
from ackq.cli.causes import causes_option, dead_number_option, print_causes
from ackq.cli.chosen import cause_option, check_entries, entries_argument, with_cause
from ackq.cli.connection import (
    ask,
    body_fields,
    examples,
    json_option,
    lists_of,
    local_time,
    on_queue,
    on_queue_end,
    open_any,
    print_json,
    print_table,
    short_time,
    yes_option,
)
from ackq.core.failure import Failure
from ackq.core.inspected import DeadLetter
from ackq.escaping import printable
from ackq.ops.causes import every
from ackq.queue.client import Queue

if TYPE_CHECKING:
    from ackq.sharded.client import ShardedQueue

#: Dead letters that `drop --all` deletes per call.
CHUNK = 100

all_option = click.option("--all", "everything", is_flag=True, help="All current dead letters.")


@click.group(cls=Group)
def dead() -> None:
    """List, show, redrive or drop the dead letters of a queue.

    A message becomes a dead letter when it reaches the consumers' limit of deliveries, is too
    large for them, is rejected by one, or is canceled while it is delayed. It is kept until you
    redrive or drop it.
    """


@dead.command(
    "list",
    epilog=examples(
        "ackq dead list jobs", "ackq dead list jobs -n 100 --json", "ackq dead list jobs --causes"
    ),
)
@on_queue
@dead_number_option
@causes_option
@json_option
def list_(queue: str, url: str | None, number: int | None, causes: bool, as_json: bool) -> None:
    """List the dead letters of QUEUE, or count them by cause.

    The oldest come first. The cause is the type of the last error and the line that raised it, if
    the consumer recorded an error; otherwise the reason. In a narrow terminal the bodies are left
    out; ackq dead show prints them, and all recorded errors. The dead letters of a sharded queue
    are listed shard by shard.
    """
    with open_any(url, queue) as opened:
        lists = lists_of(opened)
        if causes:
            print_causes(chain.from_iterable(map(_all, lists)), number, as_json)
            return
        found: list[tuple[str, DeadLetter]] = []
        for each in lists:
            left = (10 if number is None else number) - len(found)
            found += [(each.name, letter) for letter in each.dead_letters(left)]
    sharded = lists[0] is not opened
    if as_json:
        for name, letter in found:
            print_json(({"queue": name} if sharded else {}) | _fields(letter))
        return
    shard = ("shard",) if sharded else ()
    print_table(
        (*shard, "entry", "id", "reason", "receives", "died", "body"),
        [((name,) * sharded + (letter.entry, *_columns(letter))) for name, letter in found],
    )


@dead.command(epilog=examples("ackq dead show jobs 1795252215312-0"))
@on_queue
@click.argument("entries", nargs=-1, required=True, metavar="ENTRY...", callback=check_entries)
@json_option
@click.pass_context
def show(
    ctx: click.Context, queue: str, url: str | None, entries: tuple[str, ...], as_json: bool
) -> None:
    """Show dead letters of QUEUE in full. Exit code 1 if none of them exists."""
    with open_any(url, queue) as opened:
        letters = [
            letter for each in lists_of(opened) for letter in each.dead_letters(entries=entries)
        ]
    for each in letters:
        if as_json:
            print_json(_fields(each))
        else:
            _show(each)
    if not letters:
        ctx.exit(NOTHING)


@dead.command(
    epilog=examples(
        "ackq dead redrive jobs 1795252215312-0",
        "ackq dead redrive jobs -n 100",
        "ackq dead redrive jobs --cause 'no such customer'",
        "ackq dead redrive jobs --all",
    )
)
@on_queue_end
@entries_argument
@click.option("-n", "--number", type=click.IntRange(0), help="Number to redrive, oldest first.")
@cause_option
@all_option
def redrive(
    queue: str,
    url: str | None,
    entries: tuple[str, ...],
    number: int | None,
    cause: str | None,
    everything: bool,
) -> None:
    """Make dead letters of QUEUE ready again.

    Receive counts start again at zero. Prints the number redriven. A dead letter without a body is
    not redriven. Give an ENTRY of a sharded queue with the name of its shard as QUEUE.
    """
    if bool(entries) + (number is not None) + (cause is not None) + everything != 1:
        raise click.UsageError("give ENTRIES, --number, --cause or --all")
    with open_any(url, queue) as opened:
        if cause is not None:
            click.echo(sum(each.redrive(0, entries=found) for each, found in _with(opened, cause)))
        elif entries:
            click.echo(_of_one(opened).redrive(entries=entries))
        else:
            click.echo(opened.redrive(number))


@dead.command(
    epilog=examples(
        "ackq dead drop jobs 1795252215312-0",
        "ackq dead drop jobs --cause canceled --yes",
        "ackq dead drop jobs --all --yes",
    )
)
@on_queue
@entries_argument
@cause_option
@all_option
@yes_option
def drop(
    queue: str,
    url: str | None,
    entries: tuple[str, ...],
    cause: str | None,
    everything: bool,
    yes: bool,
) -> None:
    """Delete dead letters of QUEUE permanently. --cause and --all ask for confirmation.

    Prints the number deleted. Give an ENTRY of a sharded queue with the name of its shard as QUEUE.
    """
    if bool(entries) + (cause is not None) + everything != 1:
        raise click.UsageError("give ENTRIES, --cause or --all")
    with open_any(url, queue) as opened:
        if cause is not None:
            chosen = _with(opened, cause)
            count = sum(len(found) for _, found in chosen)
            ask(f"Delete {count:,} dead letters of {queue} with this cause?", yes)
            click.echo(sum(each.drop_dead_letters(*found) for each, found in chosen))
        elif everything:
            counts = [(each, each.stats().dead) for each in lists_of(opened)]
            ask(f"Delete {sum(count for _, count in counts):,} dead letters of {queue}?", yes)
            click.echo(sum(_drop_oldest(each, count) for each, count in counts))
        else:
            click.echo(_of_one(opened).drop_dead_letters(*entries))


def reason_of(letter: DeadLetter) -> str:
    """Return the reason of a dead letter, with the cause if an error is recorded."""
    return f"{letter.reason}: {letter.cause}" if letter.errors else letter.reason


def _all(queue: Queue) -> Iterator[DeadLetter]:
    """Yield the dead letters of a queue or shard, oldest first."""
    return every(lambda n, after: queue.dead_letters(n, after=after), None)


def _with(opened: Queue | ShardedQueue, cause: str) -> list[tuple[Queue, Sequence[str]]]:
    """Return the entries with this cause, by queue or shard."""
    return [
        (each, with_cause(lambda n, after: each.dead_letters(n, after=after), cause))  # noqa: B023
        for each in lists_of(opened)
    ]


def _of_one(opened: Queue | ShardedQueue) -> Queue:
    """Return the queue if it is not sharded: two shards may have an entry of the same name.

    Raises:
        click.UsageError: it is.
    """
    if isinstance(opened, Queue):
        return opened
    raise click.UsageError(
        f"{opened.name} is a sharded queue: give the shard of these entries as QUEUE; ackq dead"
        " list shows it"
    )


def _columns(letter: DeadLetter) -> tuple[object, ...]:
    return (
        letter.id,
        reason_of(letter),
        letter.receive_count,
        short_time(letter.died_at),
        letter.body,
    )


def _drop_oldest(queue: Queue, count: int) -> int:
    """Drop the ``count`` oldest dead letters, so none that were added after counting."""
    dropped = 0
    while dropped < count:
        letters = queue.dead_letters(min(CHUNK, count - dropped))
        if not letters:
            break
        dropped += queue.drop_dead_letters(*(each.entry for each in letters))
    return dropped


def _fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        "entry": letter.entry,
        "id": letter.id,
        "reason": letter.reason,
        "receive_count": letter.receive_count,
        "died_at": letter.died_at,
        "cause": letter.cause,
        "errors": [asdict(each) for each in letter.errors],
        **body_fields(letter.body),
    }


def _show(letter: DeadLetter) -> None:
    click.echo(f"entry     {letter.entry}")
    click.echo(f"id        {printable(letter.id)}")
    click.echo(f"reason    {printable(letter.reason)}")
    click.echo(f"receives  {letter.receive_count}")
    click.echo(f"died      {local_time(letter.died_at)}")
    for each in letter.errors:
        _show_failure(each)
    click.echo(f"body      {len(letter.body):,} bytes")
    click.echo(printable(letter.body) + "\n")


def _show_failure(failure: Failure) -> None:
    """Print why one delivery failed. The text is a stranger's, so each line is escaped."""
    click.echo(f"error     {failure.attempt}: {printable(failure.cause)}, {local_time(failure.at)}")
    if failure.text:
        click.echo(f"          {printable(failure.text)}")
    for line in failure.traceback.splitlines():
        click.echo(f"          {printable(line)}")
