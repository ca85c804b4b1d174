"""``ackq groups``."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

import click

from ackq.cli import NOTHING
from ackq.cli.confirmation import ask
from ackq.cli.options import examples, json_option, seconds_option, yes_option
from ackq.cli.output import print_count, print_json
from ackq.cli.queues import on_queue, open_any
from ackq.cli.tables import print_table
from ackq.config import Groups, RateLimit
from ackq.core.client import client_of
from ackq.errors import ConfigurationError
from ackq.ops.sharded import is_sharded
from ackq.queue import group_stats, inspection, record
from ackq.queue.client import Queue
from ackq.queue.group_names import group_of
from ackq.queue.messages import GroupStats

if TYPE_CHECKING:
    from ackq.sharded.client import ShardedQueue

#: Dead letters of a stopped group whose ids and reasons are read.
LETTERS = 10
#: Ready messages that are read if none has a group.
PEEKED = 100
_SHARD = re.compile(r"\{([^{}]+):\d+(?:\.\d+)?\}")
#: The settings that --on takes, and how each is read.
SETTINGS: dict[str, Callable[[str], Any]] = {
    "field": str,
    "in_flight": int,
    "rate": lambda text: _rate(*text.split("/")),
    "on_dead": str,
    "max_in_flight": int,
}


def _rate(count: str, seconds: str, burst: str | None = None) -> RateLimit:
    return RateLimit(int(count), float(seconds), None if burst is None else int(burst))


def _limit(ctx: click.Context, parameter: click.Parameter, text: str | None) -> Any:
    """Read a limit, such as 10/60 or 40; "none" is None, and without the option, it is kept."""
    if text is None or text == "none":
        return "keep" if text is None else None
    try:
        return SETTINGS[str(parameter.name)](text)
    except (ValueError, TypeError) as error:
        raise click.BadParameter(f"{text!r} is no such limit") from error


class Settings(click.ParamType):  # type: ignore[type-arg]
    """Groups and a limit, such as ``field=customer,in_flight=2`` or ``max_in_flight=40``."""

    name = "settings"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for pair in value.split(","):
            name, _, text = pair.partition("=")
            try:
                given[name] = SETTINGS[name](text)
            except (KeyError, ValueError, TypeError):
                self.fail(
                    f"{pair!r} is not field=NAME, in_flight=N, rate=N/SECONDS, on_dead=stop or"
                    " max_in_flight=N",
                    param,
                    ctx,
                )
        limit = given.pop("max_in_flight", None)
        if "field" not in given and (given or limit is None):
            self.fail("field=NAME is missing", param, ctx)
        return {"groups": Groups(**given) if given else None, "max_in_flight": limit}


@click.command(
    epilog=examples(
        "ackq groups charges",
        "ackq groups charges --by oldest --top 5",
        "ackq groups charges --on field=customer,on_dead=stop",
        "ackq groups calls --on field=service,rate=10/60,max_in_flight=40",
        "ackq groups charges --in-flight 3 --rate 10/60",
        "ackq groups charges --limit c-17 --in-flight 5",
        "ackq groups charges --pause c-17 --for 30",
        "ackq groups charges --resume c-17",
        "ackq groups charges --off --yes",
    )
)
@on_queue
@click.option(
    "--on",
    type=Settings(),
    metavar="NAME=VALUE,…",
    help="Give QUEUE groups: field, the member of its messages that names the group; in_flight, how"
    " many of a group are handled at a time; rate=N/SECONDS or N/SECONDS/BURST, how many of a group"
    " are taken in SECONDS, and how many at once after a pause; on_dead=stop, if a dead letter"
    " stops its group. Or limit QUEUE: max_in_flight, how many of all messages are handled at a"
    " time.  [in_flight=1]",
)
@click.option("--off", is_flag=True, help="Remove the groups of QUEUE: one order for all messages.")
@click.option(
    "--in-flight", callback=_limit, metavar="N", help="Change in_flight while consumers work."
)
@click.option(
    "--rate", callback=_limit, metavar="N/SECONDS", help="Change the rate; none removes it."
)
@click.option(
    "--on-dead", callback=_limit, metavar="continue|stop", help="Change what a dead letter does."
)
@click.option(
    "--max-in-flight", callback=_limit, metavar="N", help="Change max_in_flight; none removes it."
)
@click.option(
    "--limit",
    metavar="GROUP",
    help="With --in-flight or --rate: limit GROUP alone. With neither: remove its own limits.",
)
@click.option("--pause", metavar="GROUP", help="Deliver no messages of GROUP until --resume.")
@seconds_option("--for", "for_", help="With --pause: for this many seconds only.")
@click.option(
    "--resume",
    metavar="GROUP",
    help="Let GROUP go on that is paused, or without the dead letters that stop it, which stay"
    " dead.",
)
@click.option(
    "--cancel",
    metavar="GROUP",
    help="Move the ready and delayed messages of GROUP to the dead letters.",
)
@click.option(
    "--top", type=click.IntRange(1, 10_000), default=20, metavar="N", help="Groups to show.  [20]"
)
@click.option(
    "--by",
    type=click.Choice(get_args(group_stats.Order)),
    default="waiting",
    help="Show the groups with the most waiting messages, or those that have waited longest."
    "  [waiting]",
)
@click.option("--containing", metavar="TEXT", help="Only groups whose names contain TEXT.")
@yes_option
@json_option
def groups(
    queue: str,
    url: str | None,
    on: dict[str, Any] | None,
    off: bool,
    limit: str | None,
    pause: str | None,
    for_: float | None,
    resume: str | None,
    cancel: str | None,
    top: int,
    by: group_stats.Order,
    containing: str | None,
    yes: bool,
    as_json: bool,
    **limits: Any,
) -> None:
    """Show the groups of QUEUE with the longest backlogs, change their limits, or turn them on.

    waiting counts the ready messages that consumers have moved aside; those still on the list are
    not counted by group. in flight counts the messages that were delivered and are not settled,
    including those that wait for a retry. oldest is the time since the first waiting message was
    moved aside, and turn for the time since it became this group's turn; that is empty while the
    group has as many messages in flight as it may have, waits for its rate, is paused or stopped.
    See the messages with `ackq peek --group`. stopped by is a pause, or the dead letter for which
    the group waits: redrive or drop it with `ackq dead`, or use --resume. If a message behind it
    has its id, and one of the two was pushed with --unique, only `ackq dead redrive --force`
    redrives it. Stopped groups come first, then paused ones.

    A sharded queue gets its groups when it is created, see `ackq sharded create`.

    --in-flight, --rate, --on-dead and --max-in-flight change limits while consumers work: these use
    them from their next pop on, whatever they were given. --on, --off and another field need all
    consumers to be stopped: those with other groups are refused.
    --off puts every message back on the list, as `ackq drain` does: leases end, delayed messages
    become ready, and receive counts are lost. Dead letters stay.
    """
    changed = any(each != "keep" for each in limits.values())
    if (on is not None) + off + sum(map(bool, (resume, pause, cancel, limit or changed))) > 1:
        raise click.UsageError("give --on, --off, --resume, --pause, --cancel or limits")
    changes = on is not None or off
    if changes:
        _check_unsharded(url, queue)
    with open_any(url, queue, "pop" if changes else "groups") as opened:
        client = opened.client
        if on is not None:
            _turn_on(client, on)
        elif off:
            _turn_off(client, yes)
        elif resume is not None:
            _resume(client, resume)
        elif pause is not None:
            client.pause_group(pause, for_)
            click.echo(f"{pause} is paused" + ("" if for_ is None else f" for {for_:g} s"))
        elif cancel is not None:
            print_count(client.cancel_group(cancel), "message", "canceled")
        elif limit is not None:
            _limit_one(client, limit, limits)
        elif changed:
            client.set_groups(**limits)
            settings = client.config.settings()
            click.echo(f"{client.name} has {record.in_words(settings)}")
        else:
            _show(client, top, by, containing or "", as_json)


def _check_unsharded(url: str | None, queue: str) -> None:
    """Check that this is neither a sharded queue nor one of its shards.

    Raises:
        ConfigurationError: it is.
    """
    matched = _SHARD.fullmatch(queue)
    name = matched[1] if matched else queue
    with closing(client_of(url)) as client:
        if is_sharded(client, name):
            raise ConfigurationError(
                f"{name!r} is a sharded queue, whose groups cannot be changed: create another one"
                f" with ackq sharded create --groups, and move the messages: ackq move {name}"
            )


def _turn_on(queue: Queue, settings: dict[str, Any]) -> None:
    changed = queue.with_config(**settings)
    changed.execute(record.record)
    click.echo(f"{queue.name} has {record.in_words(settings)}")


def _turn_off(queue: Queue, yes: bool) -> None:
    if not queue.config.grouped:
        click.echo(f"ackq: {queue.name} has no groups and no limit", err=True)
        return
    now = queue.stats()
    ask(
        f"End the leases of {now.in_flight:,} messages of {queue.name}, and make"
        f" {now.delayed:,} delayed ones ready?",
        yes,
    )
    moved = queue.execute(inspection.drain)
    click.echo(
        f"{queue.name} has no groups and no limit; {moved:,} message{'s' * (moved != 1)} put back"
    )


def _resume(queue: Queue | ShardedQueue, group: str) -> None:
    if not queue.resume_group(group):
        click.echo(f"ackq: {group!r} of {queue.name} is neither paused nor stopped", err=True)
        sys.exit(NOTHING)
    click.echo(f"{group} goes on")


def _limit_one(queue: Queue | ShardedQueue, group: str, limits: dict[str, Any]) -> None:
    own = {name: each for name, each in limits.items() if each not in ("keep", None)}
    if not own.keys() <= {"in_flight", "rate"}:
        raise click.UsageError("--limit takes --in-flight and --rate")
    queue.limit_group(group, **own)
    click.echo(
        f"{group} has " + (", ".join(map("{0[0]}={0[1]}".format, own.items())) or "no own limits")
    )


def _show(
    queue: Queue | ShardedQueue, top: int, by: group_stats.Order, containing: str, as_json: bool
) -> None:
    if queue.config.groups is None:
        click.echo(f"ackq: {queue.name} has no groups", err=True)
        sys.exit(NOTHING)
    found = queue.groups(top, by=by, containing=containing)
    if isinstance(queue, Queue) and not (found or containing):
        _warn_without_groups(queue, queue.config.groups.field)
    letters = [_letters(queue, each.stopped_by) for each in found]
    if as_json:
        for each, stopped_by in zip(found, letters, strict=True):
            paused = each.paused_for is not None
            print_json({**asdict(each), "stopped_by": stopped_by, "paused": paused})
        return
    rows = [
        (
            *(each.name, each.waiting, each.in_flight),
            *map(_seconds, (each.oldest, each.turn_for)),
            _held(each) or _first(stopped_by),
        )
        for each, stopped_by in zip(found, letters, strict=True)
    ]
    print_table(("group", "waiting", "in flight", "oldest", "turn for", "stopped by"), rows)


def _held(group: GroupStats) -> str:
    """Return how long a group is paused; empty if it is not."""
    if group.paused_for is None:
        return ""
    return "a pause" + ("" if math.isinf(group.paused_for) else f" for {group.paused_for:.1f} s")


def _warn_without_groups(queue: Queue, field: str) -> None:
    """Say that the next messages have no group: the field may be misspelt."""
    waiting = queue.peek(PEEKED)
    if waiting and not any(group_of(each.body, field) for each in waiting):
        number = f"{len(waiting):,} messages have" if len(waiting) > 1 else "message has"
        click.echo(f"ackq: the next {number} no member {field!r}, so no group", err=True)


def _letters(queue: Queue | ShardedQueue, entries: Sequence[str]) -> list[dict[str, str]]:
    """Return the entries of dead letters; of a few in a list queue, the ids and reasons, too."""
    known = {}
    if isinstance(queue, Queue) and entries:
        known = {each.entry: each for each in queue.dead_letters(entries=entries[:LETTERS])}
    return [
        {"entry": entry}
        | ({"id": known[entry].id, "reason": known[entry].reason} if entry in known else {})
        for entry in entries
    ]


def _first(letters: Sequence[dict[str, str]]) -> str:
    if not letters:
        return ""
    first, more = letters[0], len(letters) - 1
    shown = f"{first['id']}: {first['reason']}" if "id" in first else first["entry"]
    return shown + (f", and {more} more" if more else "")


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"
