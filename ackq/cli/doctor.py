"""``ackq doctor``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ackq.cli import NOTHING
from ackq.cli.options import examples, json_option, url_option
from ackq.cli.output import print_json
from ackq.cli.tables import print_findings
from ackq.scripts import FORMAT

if TYPE_CHECKING:
    from ackq.config import PopFrom
    from ackq.ops.diagnosis import Diagnosis


@click.command(epilog=examples("ackq doctor", "ackq doctor --json", "ackq doctor jobs --convert"))
@click.argument("queue", required=False)
@url_option
@json_option
@click.option(
    "--pop-from",
    type=click.Choice(["right", "left"]),
    default="right",
    help="End that is popped in the temporary queue: left if producers of your queues use RPUSH."
    "  [right]",
)
@click.option("--convert", "converts", is_flag=True, help="Convert QUEUE to the present format.")
@click.pass_context
def doctor(
    ctx: click.Context,
    queue: str | None,
    url: str | None,
    as_json: bool,
    pop_from: PopFrom,
    converts: bool,
) -> None:
    """Check whether a Redis is safe to use as a queue. Exit code 1 if there is a problem.

    Checks version, persistence, eviction, replicas and clock, and reports what a crash would lose.
    Tests the permissions of the current user on a temporary queue. In a cluster, checks every
    primary.

    With QUEUE, checks instead whether this queue is stored in the present format. Stop its
    consumers before you convert it.
    """
    from ackq.core.client import client_of
    from ackq.core.io.nodes import nodes_of
    from ackq.ops.doctor import Doctor, convert

    if converts and queue is None:
        raise click.UsageError("--convert needs a QUEUE")
    sound = True
    with client_of(url) as client:
        if queue is not None:
            _convert(ctx, queue, convert(client, queue, only_look=not converts), converts)
            return
        nodes = nodes_of(client)
        for node in nodes:
            with Doctor(node, pop_from=pop_from) as opened:
                diagnosis = opened.examine()
            sound = sound and diagnosis.sound
            _print(opened.address, diagnosis, as_json, len(nodes) > 1)
    if not sound:
        ctx.exit(NOTHING)


def _convert(ctx: click.Context, queue: str, was_old: bool, converts: bool) -> None:
    if not was_old:
        click.echo(f"{queue} is stored in format {FORMAT}, or has nothing that depends on it")
    elif converts:
        click.echo(f"{queue} was converted from format 1 to format {FORMAT}")
    else:
        click.echo(f"{queue} is stored in format 1: stop its consumers, then add --convert")
        ctx.exit(NOTHING)


def _print(address: str, diagnosis: Diagnosis, as_json: bool, named: bool) -> None:
    if as_json:
        print_json({"server": address, "sound": diagnosis.sound, **asdict(diagnosis)})
        return
    if named:
        click.secho(address, bold=True)
    print_findings((finding.verdict, finding.check, finding.text) for finding in diagnosis.findings)
