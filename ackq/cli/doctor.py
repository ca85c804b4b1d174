"""``ackq doctor``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ackq.cli import NOTHING
from ackq.cli.options import examples, json_option, url_option
from ackq.cli.output import print_json
from ackq.cli.tables import print_findings

if TYPE_CHECKING:
    from ackq.config import PopFrom
    from ackq.ops.diagnosis import Diagnosis


@click.command(epilog=examples("ackq doctor", "ackq doctor --json"))
@url_option
@json_option
@click.option(
    "--pop-from",
    type=click.Choice(["right", "left"]),
    default="right",
    help="End that is popped in the temporary queue: left if producers of your queues use RPUSH."
    "  [right]",
)
@click.pass_context
def doctor(ctx: click.Context, url: str | None, as_json: bool, pop_from: PopFrom) -> None:
    """Check whether a Redis is safe to use as a queue. Exit code 1 if there is a problem.

    Checks version, persistence, eviction, replicas and clock, and reports what a crash would lose.
    Tests the permissions of the current user on a temporary queue. In a cluster, checks every
    primary.
    """
    from ackq.core.client import client_of
    from ackq.core.io.nodes import nodes_of
    from ackq.ops.doctor import Doctor

    sound = True
    with client_of(url) as client:
        nodes = nodes_of(client)
        for node in nodes:
            with Doctor(node, pop_from=pop_from) as opened:
                diagnosis = opened.examine()
            sound = sound and diagnosis.sound
            _print(opened.address, diagnosis, as_json, len(nodes) > 1)
    if not sound:
        ctx.exit(NOTHING)


def _print(address: str, diagnosis: Diagnosis, as_json: bool, named: bool) -> None:
    if as_json:
        print_json({"server": address, "sound": diagnosis.sound, **asdict(diagnosis)})
        return
    if named:
        click.secho(address, bold=True)
    print_findings((finding.verdict, finding.check, finding.text) for finding in diagnosis.findings)
