"""``ackq adopt``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ackq.cli import NOTHING
from ackq.cli.options import examples, json_option, url_option
from ackq.cli.output import print_json
from ackq.cli.tables import print_findings, print_steps

if TYPE_CHECKING:
    from ackq.ops.survey import Survey
    from ackq.ops.survey.advice import Advice


@click.command(epilog=examples("ackq adopt jobs", "ackq adopt jobs --for 5 --json"))
@click.argument("name", metavar="LIST")
@url_option
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(0, 3600),
    default=2.0,
    metavar="SECONDS",
    help="How long to watch the ends of LIST, up to 3600.  [2]",
)
@json_option
@click.pass_context
def adopt(ctx: click.Context, name: str, url: str | None, seconds: float, as_json: bool) -> None:
    """Look at a live LIST before ackq takes it over, and say what to do. Changes nothing.

    Shows at which ends messages are pushed and taken, which clients do so, what a sample of the
    messages contains, processing lists and keys of ackq beside LIST, and whether the server keeps
    messages safe. Reads at most 1,000 messages or 1 MiB of them, and 8 MiB while it watches.

    Redis does not say which list a client uses. The ends are seen at LIST itself; clients and
    numbers of calls are those of the whole server. A user that may only read (+@read) can run this;
    INFO, CLIENT LIST and CONFIG GET show more. What the current user may not see is listed.

    Exit code 1 if there is a problem.
    """
    from ackq.core.client import client_of
    from ackq.ops.survey import Surveyor
    from ackq.ops.survey.advice import advise

    with client_of(url) as client, Surveyor(client, name) as surveyor:
        survey = surveyor.survey(seconds)
    advice = advise(survey)
    if as_json:
        print_json(_fields(survey, advice))
    else:
        print_findings(
            (finding.verdict, finding.check, finding.text) for finding in advice.findings
        )
        print_steps("What to do", advice.steps)
    if not advice.sound:
        ctx.exit(NOTHING)


def _fields(survey: Survey, advice: Advice) -> dict[str, Any]:
    fields = asdict(survey)
    del fields["facts"]
    for users in (fields["clients"] or {}).values():
        users["ids"], users["blocked"] = len(users["ids"]), len(users["blocked"])
    fields["side_keys"] = _named(survey.side_keys)
    if survey.search is not None:
        fields["search"]["lists"] = _named(survey.search.lists)
    return {
        "list": fields.pop("name"),
        "sound": advice.sound,
        "pushed": advice.pushed,
        "taken": advice.taken,
        **fields,
        "findings": [asdict(finding) for finding in advice.findings],
        "steps": advice.steps,
    }


def _named(keys: Mapping[bytes, Any] | None) -> dict[str, Any] | None:
    if keys is None:
        return None
    return {key.decode(errors="backslashreplace"): value for key, value in keys.items()}
