"""``ackq dead``: list, show, redrive and drop dead letters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from ackq.cli import NOTHING, Group
from ackq.cli.connection import (
    ask,
    body_fields,
    examples,
    id_fields,
    json_option,
    local_time,
    print_json,
    print_table,
    short_time,
    yes_option,
)
from ackq.cli.queues import on_any_queue, open_any, part_column
from ackq.core.failure import Failure
from ackq.core.inspection_results import DeadLetter
from ackq.escaping import printable
from ackq.ops.dead_letters import every, find
from ackq.ops.kinds import only_part

if TYPE_CHECKING:
    from ackq.ops.kinds.kind import Opened, Part

#: How many dead letters are listed by default.
NUMBER = 10
#: Dead letters that `drop --all` deletes per call.
CHUNK = 100
_ENTRY = re.compile(r"[0-9]+-[0-9]+")


def _check_entries(
    ctx: click.Context, parameter: click.Parameter, entries: tuple[str, ...]
) -> tuple[str, ...]:
    for each in entries:
        if not _ENTRY.fullmatch(each):
            raise click.BadParameter(f"{each!r} is not an entry such as 17-0")
    return entries


on_dead_letters = on_any_queue("dead")
entries_argument = click.argument(
    "entries", nargs=-1, metavar="[ENTRY]...", callback=_check_entries
)
cause_option = click.option("--cause", metavar="TEXT", help="The dead letters with this cause.")
all_option = click.option("--all", "everything", is_flag=True, help="All current dead letters.")


@click.group(cls=Group)
def dead() -> None:
    """List, show, redrive or drop the dead letters of a queue of any kind but a topic.

    A message becomes a dead letter when it reaches the consumers' limit of deliveries, is too
    large for them, is rejected by one, or is canceled while it is delayed. It is kept until you
    redrive or drop it.

    Name a queue of RSMQ NAMESPACE:QUEUE, and a partition of a delay queue QUEUE:NUMBER.
    """


@dead.command(
    "list",
    epilog=examples(
        "ackq dead list jobs", "ackq dead list jobs -n 100 --json", "ackq dead list jobs --causes"
    ),
)
@on_dead_letters
@click.option(
    "-n",
    "--number",
    type=click.IntRange(0),
    help=f"Number of dead letters.  [{NUMBER}; all with --causes]",
)
@click.option("--causes", is_flag=True, help="Count the dead letters by cause.")
@json_option
def list_(queue: str, url: str | None, number: int | None, causes: bool, as_json: bool) -> None:
    """List the dead letters of QUEUE, or count them by cause.

    The oldest come first. The cause is the type of the last error and the line that raised it, if
    the consumer recorded an error; otherwise the reason. In a narrow terminal the bodies are left
    out; ackq dead show prints them, and all recorded errors. The dead letters of a sharded queue
    are listed shard by shard, those of a partitioned delay queue partition by partition.
    """
    with open_any(url, queue, "dead") as opened:
        parts = opened.parts()
        if causes:
            _print_causes(chain.from_iterable(map(every, parts)), number, as_json)
            return
        found: list[tuple[str, DeadLetter]] = []
        for part in parts:
            left = (NUMBER if number is None else number) - len(found)
            found += [(part.name, letter) for letter in part.dead_letters(left)]
    if as_json:
        for name, letter in found:
            print_json(({"queue": name} if opened.divided else {}) | _fields(letter))
        return
    letters = [letter for _, letter in found]
    columns: dict[str, Sequence[object]] = {
        **part_column(opened, [name for name, _ in found]),
        "entry": [each.entry for each in letters],
        "id": [each.id for each in letters],
        "reason": [_reason_of(each) for each in letters],
        "receives": [each.receive_count for each in letters],
        "died": [short_time(each.died_at) for each in letters],
        "body": [each.body for each in letters],
    }
    print_table(tuple(columns), [*zip(*columns.values(), strict=True)])


@dead.command(epilog=examples("ackq dead show jobs 1795252215312-0"))
@on_dead_letters
@click.argument("entries", nargs=-1, required=True, metavar="ENTRY...", callback=_check_entries)
@json_option
@click.pass_context
def show(
    ctx: click.Context, queue: str, url: str | None, entries: tuple[str, ...], as_json: bool
) -> None:
    """Show dead letters of QUEUE in full. Exit code 1 if none of them exists."""
    with open_any(url, queue, "dead") as opened:
        looked_up = [find(part, entry) for part in opened.parts() for entry in entries]
    letters = [each for each in looked_up if each is not None]
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
@on_dead_letters
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
    not redriven, nor is one of a delay queue whose key has been stored again. Give an ENTRY of a
    sharded or partitioned queue with the name of its shard or partition as QUEUE.
    """
    if bool(entries) + (number is not None) + (cause is not None) + everything != 1:
        raise click.UsageError("give ENTRIES, --number, --cause or --all")
    with open_any(url, queue, "dead") as opened:
        if entries:
            click.echo(_only_part(opened).redrive(entries=entries))
        elif cause is not None:
            chosen = _with_cause(opened, cause)
            click.echo(sum(part.redrive(0, entries=found) for part, found in chosen))
        else:
            redriven = 0
            for part in opened.parts():
                redriven += part.redrive(None if number is None else number - redriven)
            click.echo(redriven)


@dead.command(
    epilog=examples(
        "ackq dead drop jobs 1795252215312-0",
        "ackq dead drop jobs --cause canceled --yes",
        "ackq dead drop jobs --all --yes",
    )
)
@on_dead_letters
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

    Prints the number deleted. Give an ENTRY of a sharded or partitioned queue with the name of its
    shard or partition as QUEUE.
    """
    if bool(entries) + (cause is not None) + everything != 1:
        raise click.UsageError("give ENTRIES, --cause or --all")
    with open_any(url, queue, "dead") as opened:
        if entries:
            click.echo(_only_part(opened).drop_dead_letters(*entries))
        elif cause is not None:
            chosen = _with_cause(opened, cause)
            count = sum(len(found) for _, found in chosen)
            ask(f"Delete {count:,} dead letters of {queue} with this cause?", yes)
            click.echo(sum(part.drop_dead_letters(*found) for part, found in chosen))
        else:
            counts = [(part, opened.kind.stats(part)["dead"]) for part in opened.parts()]
            ask(f"Delete {sum(count for _, count in counts):,} dead letters of {queue}?", yes)
            click.echo(sum(_drop_oldest(part, count) for part, count in counts))


def _only_part(opened: Opened) -> Part:
    """Return the queue if it has no parts: two shards may have an entry of the same name.

    Raises:
        click.UsageError: it has.
    """
    if not opened.divided:
        return only_part(opened)
    part = opened.kind.part
    raise click.UsageError(
        f"{opened.name} has {part}s: give the {part} of these entries as QUEUE; ackq dead list"
        " shows it"
    )


def _with_cause(opened: Opened, cause: str) -> list[tuple[Part, Sequence[str]]]:
    """Return the entries with this cause, by part."""
    return [
        (part, [letter.entry for letter in every(part) if letter.cause == cause])
        for part in opened.parts()
    ]


def _drop_oldest(part: Part, count: int) -> int:
    """Drop the ``count`` oldest dead letters, so none that were added after counting."""
    dropped = 0
    while dropped < count:
        letters = part.dead_letters(min(CHUNK, count - dropped))
        if not letters:
            break
        dropped += part.drop_dead_letters(*(each.entry for each in letters))
    return dropped


def _print_causes(letters: Iterable[DeadLetter], number: int | None, as_json: bool) -> None:
    """Print the causes with their counts and newest dead letters, the most frequent first.

    Args:
        letters: oldest first. They are read as far as they are needed.
        number: how many to count; None: all.
        as_json: print JSON.
    """
    counts: Counter[str] = Counter()
    newest: dict[str, DeadLetter] = {}
    for each in islice(letters, number):
        counts[each.cause] += 1
        newest[each.cause] = each
    rows = [(count, cause, newest[cause]) for cause, count in counts.most_common()]
    if as_json:
        for count, cause, letter in rows:
            print_json(
                {"count": count, "cause": cause, "newest": letter.entry, "died_at": letter.died_at}
            )
        return
    print_table(
        ("count", "cause", "newest", "died"),
        [(count, cause, each.entry, short_time(each.died_at)) for count, cause, each in rows],
    )


def _reason_of(letter: DeadLetter) -> str:
    """Return the reason of a dead letter, with the cause if an error is recorded."""
    return f"{letter.reason}: {letter.cause}" if letter.errors else letter.reason


def _fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        "entry": letter.entry,
        **id_fields(letter.id),
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
    """Print why one delivery failed. The text comes from outside, so each line is escaped."""
    click.echo(f"error     {failure.attempt}: {printable(failure.cause)}, {local_time(failure.at)}")
    if failure.text:
        click.echo(f"          {printable(failure.text)}")
    for line in failure.traceback.splitlines():
        click.echo(f"          {printable(line)}")
