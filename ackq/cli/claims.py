"""``ackq claims``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ackq.cli import Group
from ackq.cli.confirmation import ask
from ackq.cli.options import examples, json_option, yes_option
from ackq.cli.output import print_count, print_json
from ackq.cli.queues import on_any_queue, open_any
from ackq.cli.tables import print_table
from ackq.core.claim_groups import HeldClaim
from ackq.ops.figures import span

if TYPE_CHECKING:
    from ackq.ops.kinds.kind import Opened

group_option = click.option("--group", help="Only the claims of this group.  [all groups]")


@click.group(cls=Group)
def claims() -> None:
    """List or release the claims of queries, such as Spark queries, on a list or delay queue.

    A claim is a batch that a query has taken and not finished; its group is the query's groupId. A
    query that dies keeps its claims until their leases end (a week by default), so that it can
    replay them exactly when you restart it.
    """


_on_claims = on_any_queue("claims")


@claims.command(
    "list", epilog=examples("ackq claims list jobs", "ackq claims list jobs --group nightly --json")
)
@_on_claims
@group_option
@json_option
def list_(queue: str, url: str | None, group: str | None, as_json: bool) -> None:
    """List the claims on QUEUE, with their messages and leases."""
    with open_any(url, queue, "claims") as opened:
        listed = _of_group(opened, group)
    if as_json:
        for claim in listed:
            print_json(asdict(claim))
        return
    print_table(
        ("group", "batch", "messages", "lease ends"),
        [(claim.group, claim.batch, claim.rows, _lease(claim.lease_ends_in)) for claim in listed],
    )


@claims.command(epilog=examples("ackq claims release jobs --group nightly --yes"))
@_on_claims
@group_option
@yes_option
def release(queue: str, url: str | None, group: str | None, yes: bool) -> None:
    """Return claimed messages to QUEUE, in their order. Asks for confirmation.

    Messages of a list go to its front. Use it for queries that are dead and will not be restarted.
    A query that still runs stops with an error, and its messages are redelivered. Prints the number
    of messages returned.
    """
    with open_any(url, queue, "claims") as opened:
        held = _of_group(opened, group)
        groups = sorted({claim.group for claim in held})
        count = sum(claim.rows for claim in held)
        if groups:
            ask(f"Take {count:,} messages from {', '.join(groups)}?", yes)
        released = sum(opened.kind.release_claims(opened.client, name) for name in groups)
        print_count(released, "message", "returned")


def _of_group(opened: Opened, group: str | None) -> list[HeldClaim]:
    return [claim for claim in opened.client.claims() if group in (None, claim.group)]


def _lease(seconds: float | None) -> str:
    if seconds is None:
        return "is going back"
    shown = span(abs(seconds)) if sys.stdout.isatty() else f"{abs(seconds):,.0f} s"
    return f"in {shown}" if seconds >= 0 else f"{shown} ago"
