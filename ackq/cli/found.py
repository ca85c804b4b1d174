"""Prints messages that were found, and where they are; and the option of how far to look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from ackq.cli.output import body_fields, id_fields, print_json
from ackq.cli.tables import print_table
from ackq.core.inspection_results import Found
from ackq.core.search_terms import WITHIN
from ackq.ops.figures import place_of


def _within(ctx: click.Context, parameter: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if value.isdecimal() and int(value) > 0:
        return int(value)
    raise click.BadParameter("is a number from 1 on, or all")


within_option = click.option(
    "--within",
    default=str(WITHIN),
    callback=_within,
    metavar="N|all",
    help=f"Number of messages to look through in each state: the next ready ones, the newest dead"
    f" letters.  [{WITHIN}]",
)


def print_found(matches: Sequence[Found], as_json: bool) -> None:
    """Print a table, or a line of JSON for each message."""
    if as_json:
        for match in matches:
            print_json(
                {
                    **id_fields(match.id),
                    "queue": match.queue,
                    "state": match.state,
                    "position": match.position,
                    "lease_ends_in": match.lease_ends_in,
                    "due_in": match.due_in,
                    "receive_count": match.receive_count,
                    "worker": match.worker,
                    "errors": [asdict(error) for error in match.errors],
                    "entry": match.entry,
                    "reason": match.reason,
                    "canceled": match.canceled,
                    **body_fields(match.body),
                }
            )
    elif matches:
        print_table(
            ("id", "state", "where", "receives", "error", "body"),
            [
                (
                    match.id,
                    match.state.replace("_", " "),
                    place_of(match),
                    match.receive_count,
                    match.errors[-1].cause if match.errors else "",
                    match.body,
                )
                for match in matches
            ],
        )
