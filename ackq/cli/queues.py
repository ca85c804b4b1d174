"""The argument and options that name a queue, and opening it, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from ackq.cli.options import url_option
from ackq.config import PopFrom
from ackq.core.client import client_of
from ackq.core.io.lender import Lender
from ackq.errors import ConfigurationError
from ackq.escaping import printable
from ackq.membership.operations import MAX_PARTITIONS
from ackq.ops.kinds import KINDS, kind_for, kinds_of
from ackq.ops.kinds.lists import LIST, SHARDED, open_sharded

if TYPE_CHECKING:
    from ackq.ops.kinds.kind import Kind, Opened, Redis, Verb
    from ackq.queue.client import Queue
    from ackq.sharded.client import ShardedQueue

F = TypeVar("F", bound=Callable[..., Any])


def _complete(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    from ackq.cli.queue_names import complete_queue

    return complete_queue(ctx, parameter, begun)


queue_argument = click.argument("queue", shell_complete=_complete)


def _note(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    ctx.meta[f"ackq.{parameter.name}"] = value


def _noted(option: str) -> Any:
    return click.get_current_context().meta.get(f"ackq.{option}")


pop_from_option = click.option(
    "--pop-from",
    type=click.Choice(["right", "left"]),
    expose_value=False,
    callback=_note,
    help="End of QUEUE's list that is popped: left if producers use RPUSH."
    "  [as recorded, or right]",
)
_partitions_option = click.option(
    "--partitions",
    type=click.IntRange(1, MAX_PARTITIONS),
    metavar="N",
    expose_value=False,
    callback=_note,
    help="Number of partitions of a delay queue.  [as its consumers recorded]",
)


def on_queue(command: F) -> F:
    """Add the argument QUEUE and the URL options."""
    return queue_argument(url_option(command))


def on_queue_end(command: F) -> F:
    """Add the argument QUEUE, the URL options and --pop-from."""
    return on_queue(pop_from_option(command))


def on_any_queue(verb: Verb) -> Callable[[F], F]:
    """Return what adds the argument QUEUE, and the options for queues of the kinds that can do it.

    An RSMQ queue is named NAMESPACE:QUEUE.
    """
    kinds = [known.name for known in KINDS.values() if verb in known.does]
    kind_option = click.option(
        "--kind",
        type=click.Choice(kinds),
        expose_value=False,
        callback=_note,
        help="Kind of QUEUE.  [as its keys show]",
    )

    def add(command: F) -> F:
        if "delay" in kinds:
            command = _partitions_option(command)
        return on_queue_end(kind_option(command))

    return add


def open_any(
    url: str | None,
    name: str,
    verb: Verb,
    *,
    pop_from: PopFrom | Literal["option"] | None = "option",
    **settings: Any,
) -> Opened:
    """Open a queue of any kind that can do something, as a context manager.

    Args:
        url: of the server. None: use the embedded server.
        name: of the queue. If --kind is not given, its keys show the kind.
        verb: what it must be able to do.
        pop_from: the end from which a list is popped; None: as recorded. Defaults to that of
            --pop-from.
        settings: of a list queue, sharded or not.

    Raises:
        ConfigurationError: the queue is of another kind.
        click.UsageError: there are queues of several kinds with this name.
    """
    client = Lender(client_of(url))
    partitions = _noted("partitions")
    kind = _noted("kind") or ("delay" if partitions else "")
    if partitions and kind != "delay":
        raise click.UsageError("--partitions is for delay queues")
    chosen = KINDS[kind] if kind else _kind_of(client, name, verb)
    if chosen.name == "delay":
        settings = {"partitions": partitions}
    elif chosen in (LIST, SHARDED):
        settings["pop_from"] = _noted("pop_from") if pop_from == "option" else pop_from
    else:
        settings = {}
    return replace(chosen.open(client, name, **settings), lender=client)


def _kind_of(client: Redis, name: str, verb: Verb) -> Kind:
    existing = kinds_of(client, name, verb)
    able = [place for place in existing if verb in place.does]
    if SHARDED in existing:
        if able in ([], [LIST]) and SHARDED not in able:
            raise ConfigurationError(
                f"{name!r} is a sharded queue: use ackq sharded, or name a shard, as ackq sharded"
                f" shards {name} lists them"
            )
        if LIST in able:
            text = f"ackq: {name} is a sharded queue; the list of the same name is left alone"
            click.echo(printable(text), err=True)
            able.remove(LIST)
    if not able:
        kind_for(verb, existing[0].name)  # says why not
    if len(able) > 1:
        called = " and ".join(able_kind.called for able_kind in able)
        kinds = " or ".join(able_kind.name for able_kind in able)
        raise click.UsageError(f"{name} is the name of {called}: choose one with --kind {kinds}")
    return able[0]


@contextmanager
def open_list(url: str | None, name: str, **settings: Any) -> Iterator[Queue]:
    """Open a list queue; see `open_any`."""
    with open_any(url, name, "pop", **settings) as opened:
        yield opened.client


@contextmanager
def open_shards(
    url: str | None, name: str, shards: int | None = None, **settings: Any
) -> Iterator[ShardedQueue]:
    """Open a sharded queue, which is created if ``shards`` are given."""
    end = _noted("pop_from")
    with (
        closing(Lender(client_of(url))) as client,
        open_sharded(client, name, shards, pop_from=end, **settings) as opened,
    ):
        yield opened.client


def part_column(opened: Opened, names: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the first column of a table of messages: which shard or partition each is in."""
    return {opened.kind.part: names} if opened.divided else {}
