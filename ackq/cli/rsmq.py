"""``ackq rsmq``: queues shared with RSMQ and its ports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ackq.cli import NOTHING, Group
from ackq.cli.causes import NUMBER, causes_option, dead_number_option, print_causes
from ackq.cli.chosen import cause_option, entries_argument, with_cause
from ackq.cli.connection import (
    WAIT_HELP,
    ask,
    body_fields,
    examples,
    json_option,
    local_time,
    number_option,
    print_body,
    print_json,
    print_table,
    seconds,
    short_time,
    url_option,
    yes_option,
)
from ackq.escaping import printable
from ackq.ops.causes import every
from ackq.rsmq.values import RSMQDeadLetter

if TYPE_CHECKING:
    from ackq.rsmq.client import RSMQ

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group)
def rsmq() -> None:
    """Work with queues shared with RSMQ, PyRSMQ and other ports, on the same keys."""


def _on_namespace(command: F) -> F:
    option = click.option("--ns", default="rsmq", metavar="NAME", help="RSMQ's namespace.  [rsmq]")
    return url_option(option(command))


def _open(url: str | None, ns: str) -> RSMQ:
    from ackq.rsmq.client import RSMQ

    return RSMQ.from_url(url, ns)


@rsmq.command(epilog=examples("ackq rsmq create mails --vt 60"))
@click.argument("qname")
@_on_namespace
@click.option(
    "--vt",
    type=int,
    default=30,
    metavar="SECONDS",
    help="Time for which a received message is hidden.  [30]",
)
@click.option(
    "--delay",
    type=int,
    default=0,
    metavar="SECONDS",
    help="Time before a sent message can be received.  [0]",
)
@click.option(
    "--maxsize",
    type=int,
    default=65536,
    metavar="N",
    help="Maximum message length in UTF-16 units; -1: no limit.  [65536]",
)
def create(qname: str, url: str | None, ns: str, vt: int, delay: int, maxsize: int) -> None:
    """Create queue QNAME."""
    with _open(url, ns) as opened:
        opened.create_queue(qname, vt, delay, maxsize)


@rsmq.command("list", epilog=examples("ackq rsmq list"))
@_on_namespace
@json_option
def list_(url: str | None, ns: str, as_json: bool) -> None:
    """List the queues."""
    with _open(url, ns) as opened:
        names = sorted(opened.list_queues())
    if as_json:
        print_json(names)
    else:
        for name in names:
            click.echo(printable(name))


@rsmq.command(epilog=examples("ackq rsmq send orders hello world --delay 5"))
@click.argument("qname")
@click.argument("messages", nargs=-1, required=True, metavar="MESSAGE...")
@_on_namespace
@click.option(
    "--delay", type=int, metavar="SECONDS", help="Time before they can be received.  [the queue's]"
)
def send(
    qname: str, messages: tuple[str, ...], url: str | None, ns: str, delay: int | None
) -> None:
    """Send messages to QNAME and print their ids."""
    with _open(url, ns) as opened:
        for id in opened.send_messages(qname, messages, delay):
            click.echo(id)


@rsmq.command(
    epilog=examples("ackq rsmq receive orders -n 10 --json", "ackq rsmq receive orders --delete")
)
@click.argument("qname")
@_on_namespace
@number_option
@click.option("--vt", type=int, metavar="SECONDS", help="Time they are hidden.  [the queue's]")
@click.option("--wait", type=float, callback=seconds, metavar="SECONDS", help=WAIT_HELP)
@click.option("--delete", is_flag=True, help="Delete the messages after printing them.")
@json_option
@click.pass_context
def receive(
    ctx: click.Context,
    qname: str,
    url: str | None,
    ns: str,
    number: int,
    vt: int | None,
    wait: float | None,
    delete: bool,
    as_json: bool,
) -> None:
    """Receive messages from QNAME and print them. Exit code 1 if there are none.

    A message that is not deleted can be received again after its visibility timeout.
    """
    with _open(url, ns) as opened:
        found = opened.receive_messages(qname, number, vt, wait)
        for each in found:
            if as_json:
                print_json({"id": each.id, "rc": each.rc, "fr": each.fr, **body_fields(each.body)})
            else:
                print_body(each.body)
        sys.stdout.flush()
        if delete:
            opened.delete_messages(qname, [each.id for each in found])
    if not found:
        ctx.exit(NOTHING)


@rsmq.command(epilog=examples("ackq rsmq delete orders g5jqqzpc3tZR8nqMZcwbbVKRVBnS3N4x"))
@click.argument("qname")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_on_namespace
def delete(qname: str, ids: tuple[str, ...], url: str | None, ns: str) -> None:
    """Delete messages of QNAME by ID.

    This includes messages that other consumers have received. Prints the number deleted.
    """
    with _open(url, ns) as opened:
        click.echo(opened.delete_messages(qname, ids))


@rsmq.command(epilog=examples("ackq rsmq visibility orders g5jqqzpc3tZR8nqMZcwbbVKRVBnS3N4x 60"))
@click.argument("qname")
@click.argument("id")
@click.argument("vt", type=int, metavar="SECONDS")
@_on_namespace
def visibility(qname: str, id: str, vt: int, url: str | None, ns: str) -> None:
    """Make message ID of QNAME visible SECONDS from now.

    Prints 1, or 0 if there is no such message.
    """
    with _open(url, ns) as opened:
        click.echo(int(opened.change_message_visibility(qname, id, vt)))


@rsmq.command("set", epilog=examples("ackq rsmq set orders --vt 60"))
@click.argument("qname")
@_on_namespace
@click.option(
    "--vt", type=int, metavar="SECONDS", help="Time for which a received message is hidden."
)
@click.option(
    "--delay", type=int, metavar="SECONDS", help="Time before a sent message can be received."
)
@click.option(
    "--maxsize", type=int, metavar="N", help="Maximum message length in UTF-16 units; -1: no limit."
)
def set_(
    qname: str, url: str | None, ns: str, vt: int | None, delay: int | None, maxsize: int | None
) -> None:
    """Change the given settings of QNAME."""
    with _open(url, ns) as opened:
        opened.set_queue_attributes(qname, vt, delay, maxsize)


@rsmq.command(epilog=examples("ackq rsmq dead orders", "ackq rsmq dead orders --causes"))
@click.argument("qname")
@_on_namespace
@dead_number_option
@causes_option
@json_option
def dead(
    qname: str, url: str | None, ns: str, number: int | None, causes: bool, as_json: bool
) -> None:
    """List the dead letters of QNAME, or count them by cause.

    The oldest is first. Messages that were received too often are moved there. The cause is the
    type of the last error and the line that raised it, if the consumer passed one to
    change_message_visibility.
    """
    with _open(url, ns) as opened:
        if causes:
            print_causes(every(partial(_read, opened, qname), None), number, as_json)
            return
        letters = opened.dead_letters(qname, NUMBER if number is None else number)
    if as_json:
        for each in letters:
            print_json(
                {
                    "entry": each.entry,
                    "id": each.id,
                    "rc": each.rc,
                    "fr": each.fr,
                    "died_at": each.died_at,
                    "cause": each.cause,
                    "errors": [asdict(error) for error in each.errors],
                    **body_fields(each.body),
                }
            )
        return
    print_table(
        ("entry", "id", "cause", "rc", "died", "body"),
        [
            (each.entry, each.id, each.cause, each.rc, short_time(each.died_at / 1000), each.body)
            for each in letters
        ],
    )


@rsmq.command(
    epilog=examples(
        "ackq rsmq redrive orders",
        "ackq rsmq redrive orders 1795252215312-0",
        "ackq rsmq redrive orders --cause 'received too often'",
    )
)
@click.argument("qname")
@entries_argument
@_on_namespace
@click.option(
    "-n", "--number", type=click.IntRange(0), help="Number to redrive, oldest first.  [all]"
)
@cause_option
def redrive(
    qname: str,
    entries: tuple[str, ...],
    url: str | None,
    ns: str,
    number: int | None,
    cause: str | None,
) -> None:
    """Make dead letters of QNAME visible again. Prints the number redriven."""
    if bool(entries) + (number is not None) + (cause is not None) > 1:
        raise click.UsageError("give ENTRIES, --number or --cause")
    with _open(url, ns) as opened:
        if cause is not None:
            entries, number = _with_cause(opened, qname, cause), 0
        click.echo(opened.redrive(qname, number, entries=entries))


@rsmq.command(
    "drop-dead",
    epilog=examples(
        "ackq rsmq drop-dead orders 1795252215312-0",
        "ackq rsmq drop-dead orders --cause 'received too often' --yes",
    ),
)
@click.argument("qname")
@entries_argument
@_on_namespace
@cause_option
@yes_option
def drop_dead(
    qname: str, entries: tuple[str, ...], url: str | None, ns: str, cause: str | None, yes: bool
) -> None:
    """Delete dead letters of QNAME permanently. --cause asks for confirmation.

    Prints the number deleted.
    """
    if bool(entries) + (cause is not None) != 1:
        raise click.UsageError("give ENTRIES or --cause")
    with _open(url, ns) as opened:
        if cause is not None:
            entries = _with_cause(opened, qname, cause)
            ask(f"Delete {len(entries):,} dead letters of {qname} with this cause?", yes)
        click.echo(opened.drop_dead_letters(qname, *entries))


def _with_cause(opened: RSMQ, qname: str, cause: str) -> tuple[str, ...]:
    return tuple(with_cause(partial(_read, opened, qname), cause))


def _read(opened: RSMQ, qname: str, n: int, after: str | None) -> list[RSMQDeadLetter]:
    return opened.dead_letters(qname, n, after=after)


@rsmq.command(epilog=examples("ackq rsmq stats orders", "ackq rsmq stats orders --totals"))
@click.argument("qname")
@_on_namespace
@click.option(
    "--totals",
    is_flag=True,
    help="Also show how many messages were pushed, taken, acked"
    " and so on since the queue was created.",
)
@json_option
def stats(qname: str, url: str | None, ns: str, totals: bool, as_json: bool) -> None:
    """Show the settings and counts of QNAME."""
    with _open(url, ns) as opened:
        found = asdict(opened.get_queue_attributes(qname))
        counted = asdict(opened.counters(qname)) if totals else {}
    if as_json:
        print_json(found | ({"totals": counted} if counted else {}))
        return
    times = {name: local_time(found[name]) for name in ("created", "modified")}
    shown = found | (times if sys.stdout.isatty() else {})
    rows = [(name, counted[name]) for name in ("pushed", "taken", "acked", "dead") if counted]
    print_table(("", qname), [*shown.items(), *rows])


@rsmq.command(epilog=examples("ackq rsmq drop orders --yes"))
@click.argument("qname")
@_on_namespace
@yes_option
def drop(qname: str, url: str | None, ns: str, yes: bool) -> None:
    """Delete queue QNAME and its messages permanently. Asks for confirmation."""
    with _open(url, ns) as opened:
        if not yes:
            count = opened.get_queue_attributes(qname).msgs
            ask(f"Delete queue {qname} and its {count:,} messages?", yes)
        opened.delete_queue(qname)
