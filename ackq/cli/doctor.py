"""``ackq doctor``."""

from __future__ import annotations

from dataclasses import asdict

import click

from ackq.cli import NOTHING
from ackq.cli.connection import examples, json_option, print_findings, print_json, url_option


@click.command(epilog=examples("ackq doctor", "ackq doctor --json"))
@url_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, url: str | None, as_json: bool) -> None:
    """Look at a Redis before you trust it with messages. Exit code 1 if there is a problem.

    It reads the version, persistence, eviction, replicas and clock, tries what the current user
    may do on a queue of its own that it removes, and says what a crash would lose.
    """
    from ackq.sync.client import client_of
    from ackq.sync.doctor import Doctor

    with client_of(url) as client, Doctor(client) as opened:
        diagnosis = opened.examine()
    if as_json:
        print_json({"sound": diagnosis.sound, **asdict(diagnosis)})
    else:
        print_findings((each.verdict, each.check, each.text) for each in diagnosis.findings)
    if not diagnosis.sound:
        ctx.exit(NOTHING)
