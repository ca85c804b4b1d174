"""``ackq search``."""

from __future__ import annotations

import sys
from typing import Any

import click

from ackq.cli import NOTHING
from ackq.cli.found import print_found, within_option
from ackq.cli.options import examples, json_option
from ackq.cli.progress import progress
from ackq.cli.queues import on_any_queue, open_any
from ackq.core.search_terms import fields_of
from ackq.errors import ConfigurationError


def _fields(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    try:
        return fields_of(given)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


@click.command(
    epilog=examples(
        "ackq search jobs --where customer=17",
        "ackq search jobs --where customer=17 --within all --json",
    )
)
@on_any_queue("search")
@click.option(
    "--where",
    multiple=True,
    required=True,
    callback=_fields,
    metavar="FIELD=VALUE",
    help="A field of the body and its value, as JSON or text; to compare 17 as text, write"
    " '\"17\"'. A dot leads into an object. Repeatable: all must match.",
)
@click.option(
    "-n", "--number", type=click.IntRange(1), default=100, help="Maximum number of messages.  [100]"
)
@within_option
@json_option
def search(
    queue: str,
    url: str | None,
    where: dict[str, Any],
    number: int,
    within: int | None,
    as_json: bool,
) -> None:
    """Show the messages of QUEUE with these fields, and where they are.

    Searches messages in every state: ready, in flight, delayed and dead. Nothing is changed. Exits
    with 1 if no message matches.
    """
    looked = 0
    with open_any(url, queue, "search") as opened:
        stats = opened.client.stats()
        total = stats.ready + stats.in_flight + stats.delayed + stats.dead
        with progress("messages searched", total, "") as on_step:

            def on_progress(count: int) -> None:
                nonlocal looked
                looked += count
                on_step(looked)

            matches = opened.client.search(
                where, limit=number, within=within, on_progress=on_progress
            )
    print_found(matches, as_json)
    if not matches:
        click.echo(f"ackq: no match among {looked:,} messages of {queue}", err=True)
        sys.exit(NOTHING)
