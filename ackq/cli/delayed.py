"""``ackq delayed``: list, run or cancel delayed messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ackq.cli import Group
from ackq.cli.confirmation import ask
from ackq.cli.options import examples, json_option, yes_option
from ackq.cli.output import body_fields, print_count, print_json
from ackq.cli.queues import on_queue, on_queue_end, open_any
from ackq.cli.tables import print_table
from ackq.cli.times import short_time

if TYPE_CHECKING:
    from ackq.core.inspection_results import PeekedMessage
    from ackq.queue.client import Queue

#: Delayed messages that `--all` changes per call.
PAGE = 100

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group)
def delayed() -> None:
    """List, run or cancel the delayed messages of a queue.

    A message is delayed if it was pushed for later, or failed and waits for its next delivery.
    For delay queues, see ackq delay.
    """


def _on_messages(command: F) -> F:
    command = click.option(
        "--id",
        "ids",
        multiple=True,
        metavar="ID",
        help="A message by its id, ready or delayed. Repeatable.",
    )(command)
    command = click.option(
        "--all", "everything", is_flag=True, help="All messages that are delayed now."
    )(yes_option(command))
    return on_queue(click.argument("entries", nargs=-1, metavar="[ENTRY]...")(command))


@delayed.command(
    "list", epilog=examples("ackq delayed list jobs", "ackq delayed list jobs -n 100 --json")
)
@on_queue_end
@click.option(
    "-n", "--number", type=click.IntRange(0), default=10, help="Number of messages.  [10]"
)
@json_option
def list_(queue: str, url: str | None, number: int, as_json: bool) -> None:
    """List the delayed messages of QUEUE, the soonest first.

    An entry names a message until it is delivered: a later message with the same id has another
    entry. An error is the cause of the last failure, if the consumer recorded one. The messages
    of a sharded queue are listed shard by shard.
    """
    with open_any(url, queue, "delayed") as opened:
        messages: list[PeekedMessage] = []
        for shard in opened.parts():
            messages += shard.peek(number - len(messages), "delayed")
    causes = [message.errors[-1].cause if message.errors else "" for message in messages]
    if as_json:
        for message, cause in zip(messages, causes, strict=True):
            print_json(
                {
                    "entry": message.entry,
                    "id": message.id,
                    "due": message.at,
                    "receive_count": message.receive_count,
                    "cause": cause,
                    **body_fields(message.body),
                }
            )
        return
    print_table(
        ("entry", "id", "due", "receives", "error"),
        [
            (message.entry, message.id, short_time(message.at), message.receive_count, cause)
            for message, cause in zip(messages, causes, strict=True)
        ],
    )


@delayed.command(
    epilog=examples(
        "ackq delayed run jobs 1795252215312092-a-9",
        "ackq delayed run jobs --id a-9 --id a-10",
        "ackq delayed run jobs --all --yes",
    )
)
@_on_messages
def run(**chosen: Any) -> None:
    """Make delayed messages of QUEUE ready now, in the given order.

    --all takes all that are delayed now, the soonest first, 100 at a time, and asks for
    confirmation. Prints the number made ready. Messages that are ready, in flight or gone are left
    alone.
    """
    _change("run_now", "Make {:,} delayed messages of {} ready now?", **chosen)


@delayed.command(
    epilog=examples(
        "ackq delayed cancel jobs 1795252215312092-a-9",
        "ackq delayed cancel jobs --id a-9",
        "ackq delayed cancel jobs --all --yes",
    )
)
@_on_messages
def cancel(**chosen: Any) -> None:
    """Move delayed messages of QUEUE to the dead letters.

    --all takes all that are delayed now, the soonest first, 100 at a time, and asks for
    confirmation. The reason is "canceled". Prints the number canceled. Messages in flight are left
    alone. ackq dead redrive makes canceled messages ready again; ackq dead drop deletes them
    permanently.
    """
    _change("cancel", "Cancel {:,} delayed messages of {}?", **chosen)


def _change(
    verb: str,
    question: str,
    queue: str,
    url: str | None,
    entries: tuple[str, ...],
    ids: tuple[str, ...],
    everything: bool,
    yes: bool,
) -> None:
    """Change the chosen messages, or all if the answer to ``question`` is yes, and print how many.

    Raises:
        click.UsageError: messages are chosen and all are asked for, or neither.
    """
    if bool(entries or ids) == everything:
        raise click.UsageError("give ENTRIES or --id, or --all")
    with open_any(url, queue, "delayed") as opened:
        if not everything:
            changed = getattr(opened.client, verb)(*entries, ids=ids)
        else:
            count = opened.client.stats().delayed
            ask(question.format(count, queue), yes)
            changed = 0
            for shard in opened.parts():
                delayed = shard.stats().delayed if opened.divided else count
                changed += _each_page(shard, delayed, getattr(shard, verb))
    print_count(changed, "message", "canceled" if verb == "cancel" else "made ready")


def _each_page(queue: Queue, count: int, change: Callable[..., int]) -> int:
    """Change the ``count`` delayed messages that are due first, a page at a time."""
    changed = looked = 0
    while looked < count:
        # Those that could not be changed are still the first ones.
        page = queue.peek(min(PAGE, count - looked), "delayed", skip=looked - changed)
        if not page:
            break
        changed += change(*(message.entry for message in page))
        looked += len(page)
    return changed
