"""``ackq rsmq``: queues shared with RSMQ and its ports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ackq.cli import NOTHING, Group
from ackq.cli.confirmation import ask
from ackq.cli.options import (
    examples,
    json_option,
    number_option,
    url_option,
    wait_option,
    yes_option,
)
from ackq.cli.output import body_fields, print_body, print_count, print_json
from ackq.escaping import printable

if TYPE_CHECKING:
    from ackq.rsmq.client import RSMQ

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group)
def rsmq() -> None:
    """Work with queues shared with RSMQ, PyRSMQ and other ports, on the same keys.

    ackq stats and dead take the name of such a queue, too: NAMESPACE:QUEUE.
    """


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
@wait_option
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
        messages = opened.receive_messages(qname, number, vt, wait)
        for message in messages:
            if as_json:
                print_json(
                    {
                        "id": message.id,
                        "rc": message.rc,
                        "fr": message.fr,
                        **body_fields(message.body),
                    }
                )
            else:
                print_body(message.body)
        sys.stdout.flush()
        if delete:
            opened.delete_messages(qname, [message.id for message in messages])
    if not messages:
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
        print_count(opened.delete_messages(qname, ids), "message", "deleted")


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
