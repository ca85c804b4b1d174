"""``ackq audit``."""

from __future__ import annotations

from dataclasses import asdict

import click

from ackq.cli import NOTHING
from ackq.cli.options import examples, json_option
from ackq.cli.output import print_json
from ackq.cli.queues import on_queue_end, open_list
from ackq.escaping import printable


@click.command(epilog=examples("ackq audit jobs", "ackq audit jobs --repair"))
@on_queue_end
@click.option("--repair", is_flag=True, help="Repair what can be repaired. Deletes no message.")
@json_option
@click.pass_context
def audit(ctx: click.Context, queue: str, url: str | None, repair: bool, as_json: bool) -> None:
    """Check every record of QUEUE for inconsistencies. Exit code 1 if any remain."""
    with open_list(url, queue) as opened:
        report = opened.audit(repair)
    if as_json:
        print_json({"sound": report.sound, **asdict(report)})
    else:
        for finding in report.findings:
            mark = "repaired" if finding.repaired else "FOUND"
            click.echo(f"{mark}: {finding.problem}: {printable(finding.key)}")
        verdict = "sound" if report.sound else "not sound; --repair mends what can be mended"
        click.echo(f"{printable(queue)}: {report.checked:,} records checked: {verdict}")
    if not report.sound:
        ctx.exit(NOTHING)
