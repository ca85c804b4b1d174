"""``ackq topic``: topics that can be replayed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

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
from ackq.cli.tables import print_table

if TYPE_CHECKING:
    from ackq.topic.client import Topic

Position = int | Literal["oldest", "end"]


def _position(_: click.Context, __: click.Parameter, value: str) -> Position:
    """Parse an index, ``oldest`` or ``end``."""
    if value in ("oldest", "end"):
        return "oldest" if value == "oldest" else "end"
    if value.isascii() and value.isdigit():
        return int(value)
    raise click.BadParameter(f"{value!r} is not an index, oldest or end")


@click.group(cls=Group)
def topic() -> None:
    """Work with topics: ordered messages that each consumer reads at its own position."""


def _open(url: str | None, name: str, **settings: Any) -> Topic:
    from ackq.topic.client import Topic

    return Topic.from_url(url, name, **settings)


@topic.command(epilog=examples("""ackq topic publish events '{"event": "login"}'"""))
@click.argument("name")
@click.argument("messages", nargs=-1, required=True, metavar="MESSAGE...")
@url_option
def publish(name: str, messages: tuple[str, ...], url: str | None) -> None:
    """Publish messages to topic NAME and print their indexes."""
    with _open(url, name) as opened:
        for index in opened.publish_many([message.encode() for message in messages]):
            click.echo(index)


@topic.command(
    epilog=examples(
        "ackq topic subscribe events audit", "ackq topic subscribe events mailer --from end"
    )
)
@click.argument("name")
@click.argument("consumer")
@url_option
@click.option(
    "--from",
    "start",
    callback=_position,
    default="oldest",
    metavar="INDEX|oldest|end",
    help="First position.  [oldest]",
)
@click.pass_context
def subscribe(
    ctx: click.Context, name: str, consumer: str, url: str | None, start: Position
) -> None:
    """Subscribe CONSUMER to topic NAME. Exit code 1, without a change, if it already is."""
    with _open(url, name) as opened:
        if not opened.subscribe(consumer, start):
            ctx.exit(NOTHING)


@topic.command(epilog=examples("ackq topic unsubscribe events billing --yes"))
@click.argument("name")
@click.argument("consumer")
@url_option
@yes_option
@click.pass_context
def unsubscribe(ctx: click.Context, name: str, consumer: str, url: str | None, yes: bool) -> None:
    """Delete CONSUMER's position in topic NAME. Asks for confirmation.

    Messages are kept. Exit code 1 if CONSUMER is not subscribed.
    """
    with _open(url, name) as opened:
        ask(f"Forget how far {consumer} has read {name}?", yes)
        if not opened.unsubscribe(consumer):
            ctx.exit(NOTHING)


@topic.command(epilog=examples("ackq topic consume events billing -n 10"))
@click.argument("name")
@click.argument("consumer")
@url_option
@number_option
@wait_option
@json_option
@click.pass_context
def consume(
    ctx: click.Context,
    name: str,
    consumer: str,
    url: str | None,
    number: int,
    wait: float | None,
    as_json: bool,
) -> None:
    """Print the next messages of topic NAME for CONSUMER.

    The position is committed after printing: if the command dies in between, messages are printed
    again, but none is skipped. Exit code 1 if there are none.
    """
    with _open(url, name) as opened:
        batch = opened.consume(consumer, number, wait)
        for message in batch:
            if as_json:
                print_json({"index": message.index, **body_fields(message.body)})
            else:
                print_body(message.body)
        sys.stdout.flush()
        if batch:
            opened.commit(batch)
    if not batch:
        ctx.exit(NOTHING)


@topic.command(epilog=examples("ackq topic seek events billing oldest"))
@click.argument("name")
@click.argument("consumer")
@click.argument("to", callback=_position, metavar="INDEX|oldest|end")
@url_option
def seek(name: str, consumer: str, to: Position, url: str | None) -> None:
    """Move CONSUMER to another position in topic NAME.

    Use it to read messages again, or to skip them.
    """
    with _open(url, name) as opened:
        opened.seek(consumer, to)


@topic.command(epilog=examples("ackq topic stats events billing"))
@click.argument("name")
@click.argument("consumers", nargs=-1, metavar="[CONSUMER]...")
@url_option
@json_option
def stats(name: str, consumers: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """Show the first and last index of topic NAME.

    For each of CONSUMERS, also show its lag: how many messages it is behind.
    """
    with _open(url, name) as opened:
        ends = {"oldest": opened.oldest(), "newest": opened.newest()}
        lags = {consumer: opened.lag(consumer) for consumer in consumers}
    if as_json:
        print_json({**ends, "lag": lags})
    else:
        print_table(
            ("", name),
            [*ends.items(), *((f"lag of {consumer}", lag) for consumer, lag in lags.items())],
        )


@topic.command(epilog=examples("ackq topic trim events --keep 1000 --yes"))
@click.argument("name")
@url_option
@click.option(
    "--keep", type=click.IntRange(0), required=True, metavar="N", help="Number of messages to keep."
)
@yes_option
def trim(name: str, url: str | None, keep: int, yes: bool) -> None:
    """Delete the oldest messages of topic NAME, read or not. Asks for confirmation.

    They are lost. Prints the number deleted.
    """
    with _open(url, name) as opened:
        ask(f"Delete all but the newest {keep:,} messages of {name}?", yes)
        print_count(opened.trim(keep), "message", "deleted")
