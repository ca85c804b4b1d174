"""``ackq dead``: list, show, redrive and drop dead letters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from ackq.cli import NOTHING, Group
from ackq.cli.confirmation import ask
from ackq.cli.options import examples, json_option, yes_option
from ackq.cli.output import body_fields, id_fields, print_count, print_json
from ackq.cli.progress import OnStep, progress
from ackq.cli.queues import on_any_queue, open_any, part_column
from ackq.cli.tables import print_table
from ackq.cli.times import local_time, short_time
from ackq.core.failure import Failure
from ackq.core.inspection_results import DeadLetter
from ackq.escaping import printable
from ackq.ops.dead_letters import every, find, newest_first
from ackq.ops.kinds import only_part
from ackq.ops.kinds.lists import SHARDED
from ackq.queue import inspection
from ackq.queue.client import Queue

if TYPE_CHECKING:
    from ackq.ops.kinds.kind import Opened, Part

#: How many dead letters are listed by default.
NUMBER = 10
#: How many of those that stay are named.
SHOWN = 10
#: Dead letters that `drop --all` deletes per call.
CHUNK = 100
_ENTRY = re.compile(r"[0-9]+-[0-9]+")


def _check_entries(
    ctx: click.Context, parameter: click.Parameter, entries: tuple[str, ...]
) -> tuple[str, ...]:
    for entry in entries:
        if not _ENTRY.fullmatch(entry):
            raise click.BadParameter(f"{entry!r} is not an entry such as 17-0")
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
    large for them, is rejected by one, or is canceled. It is kept until you redrive or drop it.

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
@click.option("--causes", is_flag=True, help="Count the dead letters by cause and task.")
@click.option("--oldest", is_flag=True, help="Begin with the oldest dead letters.")
@json_option
def list_(
    queue: str, url: str | None, number: int | None, causes: bool, oldest: bool, as_json: bool
) -> None:
    """List the dead letters of QUEUE, or count them by cause.

    The newest come first, unless you give --oldest. The cause is the type of the last error and the
    line that raised it, if the consumer recorded an error; otherwise the reason. In a narrow
    terminal the bodies are left out; ackq dead show prints them, and all recorded errors. The dead
    letters of all shards or partitions are listed together.
    """
    with open_any(url, queue, "dead") as opened:
        read = _in_order(opened, oldest)
        if causes:
            _print_causes((letter for _, letter in islice(read, number)), as_json)
            return
        shown = [*islice(read, NUMBER if number is None else number)]
    if as_json:
        for name, letter in shown:
            print_json(({"queue": name} if opened.divided else {}) | _fields(letter))
        return
    letters = [letter for _, letter in shown]
    columns: dict[str, Sequence[object]] = {
        **part_column(opened, [name for name, _ in shown]),
        "entry": [dead_letter.entry for dead_letter in letters],
        "id": [dead_letter.id for dead_letter in letters],
        "reason": [_reason_of(dead_letter) for dead_letter in letters],
        "receives": [dead_letter.receive_count for dead_letter in letters],
        "died": [short_time(dead_letter.died_at) for dead_letter in letters],
        "body": [dead_letter.body for dead_letter in letters],
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
    letters = [known for known in looked_up if known is not None]
    for letter in letters:
        if as_json:
            print_json(_fields(letter))
        else:
            _show(letter)
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
@click.option(
    "--force", is_flag=True, help="Also those that stay because of a message with their id."
)
def redrive(
    queue: str,
    url: str | None,
    entries: tuple[str, ...],
    number: int | None,
    cause: str | None,
    everything: bool,
    force: bool,
) -> None:
    """Make dead letters of QUEUE ready again.

    Receive counts start again at zero. Prints the number redriven. A dead letter without a body is
    not redriven, nor is one of a delay queue whose key has been stored again. In a list queue, one
    stays if a message with its id is in the queue and one of the two was pushed with --unique; that
    is reported, and --force redrives it. If it stops a group, the group waits until then, or until
    `ackq groups QUEUE --resume`. Give an ENTRY of a sharded or partitioned queue with the
    name of its shard or partition as QUEUE.
    """
    if bool(entries) + (number is not None) + (cause is not None) + everything != 1:
        raise click.UsageError("give ENTRIES, --number, --cause or --all")
    with open_any(url, queue, "dead") as opened:
        if entries:
            counts = [_redrive_some(_only_part(opened), entries, force)]
        elif cause is not None:
            chosen = _with_cause(opened, cause)
            counts = [_redrive_some(part, letters, force) for part, letters in chosen]
        else:
            counts = _redrive(opened, number, force)
        refused = [entry for count in counts for entry in getattr(count, "refused", ())]
        has_groups = refused and opened.client.config.groups is not None
        is_stopped = has_groups and any(each.stopped_by for each in opened.client.groups(1))
    print_count(sum(counts), "dead letter", "redriven")
    for entry in refused[:SHOWN]:
        click.echo(f"ackq: {entry} stays: a message with its id is in the queue", err=True)
    if refused:
        click.echo(f"ackq: --force redrives them: {len(refused):,} stay", err=True)
    if is_stopped:
        click.echo(
            "ackq: a group that such a dead letter stops waits: redrive it with --force, or let the"
            f" group go on without it: ackq groups {queue} --resume GROUP",
            err=True,
        )


def _redrive_some(part: Part, entries: Sequence[str], force: bool) -> int:
    """Redrive the dead letters of a part with these entries."""
    if isinstance(part, Queue):
        return part.redrive(0, entries=entries, force=force)
    return part.redrive(0, entries=entries)


def _add(on_step: OnStep, before: int, count: int) -> None:
    on_step(before + count)


def _redrive(opened: Opened, number: int | None, force: bool) -> list[int]:
    """Redrive the oldest dead letters of each part, ``number`` in all; None: all of them.

    Return how many of each part.
    """
    if opened.kind.name == "sharded" and opened.client.config.groups is not None:
        return [opened.client.redrive(number, force=force)]  # it knows former shards
    counts: list[int] = []
    total = opened.kind.stats(opened.client).get("dead") if number is None else number
    with progress("dead letters redriven", total, "run it again to go on") as on_step:
        for part in opened.parts():
            before = sum(counts)
            left = None if number is None else number - before
            if isinstance(part, Queue):
                step = partial(_add, on_step, before)
                counts.append(part.execute(inspection.redrive, left, (), step, force))
            else:
                counts.append(part.redrive(left))
                on_step(sum(counts))
    return counts


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
            dropped = _only_part(opened).drop_dead_letters(*entries)
        elif cause is not None:
            chosen = _with_cause(opened, cause)
            count = sum(len(letters) for _, letters in chosen)
            ask(f"Delete {count:,} dead letters of {queue} with this cause?", yes)
            dropped = sum(part.drop_dead_letters(*letters) for part, letters in chosen)
        else:
            counts = [(part, opened.kind.stats(part)["dead"]) for part in opened.parts()]
            ask(f"Delete {sum(count for _, count in counts):,} dead letters of {queue}?", yes)
            dropped = sum(_drop_oldest(part, count) for part, count in counts)
    print_count(dropped, "dead letter", "deleted")


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
        dropped += part.drop_dead_letters(*(letter.entry for letter in letters))
    return dropped


def _in_order(opened: Opened, oldest: bool) -> Iterator[tuple[str, DeadLetter]]:
    """Yield the dead letters of all parts in the order of their deaths, with their parts' names."""
    kind, client = "list" if opened.kind is SHARDED else opened.kind.name, opened.lender
    assert client is not None  # the commands open queues with a client that lends

    def named(part: Part) -> Iterator[tuple[str, DeadLetter]]:
        letters = every(part) if oldest else newest_first(client, kind, part.name)
        return ((part.name, letter) for letter in letters)

    return merge(*map(named, opened.parts()), key=_died_at, reverse=not oldest)


def _died_at(named: tuple[str, DeadLetter]) -> float:
    return named[1].died_at


def _print_causes(letters: Iterable[DeadLetter], as_json: bool) -> None:
    """Print causes and tasks with their counts and newest letters, the most frequent first."""
    counts: Counter[tuple[str, str | None]] = Counter()
    newest: dict[tuple[str, str | None], DeadLetter] = {}
    for dead_letter in letters:
        cause = dead_letter.cause, dead_letter.task
        counts[cause] += 1
        if cause not in newest or dead_letter.died_at >= newest[cause].died_at:
            newest[cause] = dead_letter
    rows = [(count, *key, newest[key]) for key, count in counts.most_common()]
    if as_json:
        for count, why, task, letter in rows:
            print_json(
                {
                    "count": count,
                    "cause": why,
                    "task": task,
                    "newest": letter.entry,
                    "died_at": letter.died_at,
                }
            )
        return
    has_tasks = any(task for _, _, task, _ in rows)
    print_table(
        ("count", "cause", *(("task",) if has_tasks else ()), "newest", "died"),
        [
            (
                count,
                why,
                *((task or "",) if has_tasks else ()),
                letter.entry,
                short_time(letter.died_at),
            )
            for count, why, task, letter in rows
        ],
    )


def _reason_of(letter: DeadLetter) -> str:
    """Return the reason of a dead letter, with its cause if that says more."""
    name = letter.cause.partition(" at ")[0].rpartition(".")[2]
    reason = letter.reason.removesuffix(f": {name}")  # as in "not retried: KeyError"
    return letter.reason if letter.cause == letter.reason else f"{reason}: {letter.cause}"


def _fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        "entry": letter.entry,
        **id_fields(letter.id),
        "reason": letter.reason,
        "receive_count": letter.receive_count,
        "died_at": letter.died_at,
        "cause": letter.cause,
        "errors": [asdict(error) for error in letter.errors],
        **body_fields(letter.body),
    }


def _show(letter: DeadLetter) -> None:
    click.echo(f"entry     {letter.entry}")
    click.echo(f"id        {printable(letter.id)}")
    click.echo(f"reason    {printable(letter.reason)}")
    click.echo(f"receives  {letter.receive_count}")
    click.echo(f"died      {local_time(letter.died_at)}")
    for error in letter.errors:
        _show_failure(error)
    click.echo(f"body      {len(letter.body):,} bytes")
    click.echo(printable(letter.body) + "\n")


def _show_failure(failure: Failure) -> None:
    """Print why one delivery failed. The text comes from outside, so each line is escaped."""
    click.echo(f"error     {failure.attempt}: {printable(failure.cause)}, {local_time(failure.at)}")
    if failure.text:
        click.echo(f"          {printable(failure.text)}")
    for line in failure.traceback.splitlines():
        click.echo(f"          {printable(line)}")
