"""``ackq attention``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ackq.cli import NOTHING
from ackq.cli.options import (
    examples,
    json_option,
    limit_option,
    seconds_option,
    time_field_option,
    url_option,
)
from ackq.cli.output import print_json
from ackq.cli.tables import print_findings

if TYPE_CHECKING:
    from ackq.ops.attention.model import Limits

#: Seconds for which consumers go on counting, so that the next call knows what happened.
WINDOW = 900.0


@click.command(
    epilog=examples(
        "ackq attention || true", "ackq attention jobs --limit oldest=60 --json || true"
    )
)
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@seconds_option(
    "--watch", default=2.0, help="Time between two readings, which show what is taken.  [2]"
)
@limit_option
@time_field_option
@json_option
@click.pass_context
def attention(
    ctx: click.Context,
    queues: tuple[str, ...],
    url: str | None,
    watch: float,
    limits: Limits,
    time_field: str | None,
    as_json: bool,
) -> None:
    """Show what needs a person now, in QUEUES or everywhere. Exit code 1 if anything does.

    Prints one trouble a line, the worst first: how bad it is, its kind, the queue, what was seen,
    and the command that shows more. The page, ackq top, ackq notify and the metrics show the same.

    It knows what happened before from the figures that workers, the page and the exporter keep in
    Redis, and lets consumers count for 15 more minutes.
    """
    from ackq.core.client import client_of
    from ackq.ops.attention.watch import Attention
    from ackq.ops.overview import Overview

    with (
        client_of(url) as client,
        Attention(client, limits, once=True) as looked,
        Overview(client, queues, window=WINDOW, time_field=time_field) as overview,
    ):
        snapshot = overview.read()
        troubles = looked.look(snapshot)
        if snapshot.up:
            time.sleep(watch)
            troubles = looked.look(overview.read())
    if as_json:
        for each in troubles:
            print_json(each.as_dict())
    elif not troubles:
        click.echo("ackq: nothing needs a person now", err=True)
    else:
        print_findings(
            (each.severity, each.key.kind, f"{each.text}. See: {each.help}") for each in troubles
        )
    if troubles:
        ctx.exit(NOTHING)
