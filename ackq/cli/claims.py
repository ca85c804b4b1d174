"""``ackq claims``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

import click

from ackq.cli import Group
from ackq.cli.connection import (
    ask,
    end_of,
    examples,
    json_option,
    on_queue_end,
    open_queue,
    print_json,
    print_table,
    span,
    yes_option,
)
from ackq.core.claim_groups import HeldClaim

group_option = click.option("--group", help="Only the claims of this group.  [all groups]")


@click.group(cls=Group)
def claims() -> None:
    """List or release the claims of queries, such as Spark queries, on a queue.

    A claim is a batch that a query has taken and not finished; its group is the query's groupId. A
    query that dies keeps its claims until their leases end (a week by default), so that it can
    replay them exactly when you restart it.
    """


@claims.command(
    "list", epilog=examples("ackq claims list jobs", "ackq claims list jobs --group nightly --json")
)
@on_queue_end
@group_option
@json_option
def list_(queue: str, url: str | None, group: str | None, as_json: bool) -> None:
    """List the claims on QUEUE, with their messages and leases."""
    print_claims(_claims(queue, url, group), as_json)


@claims.command(epilog=examples("ackq claims release jobs --group nightly --yes"))
@on_queue_end
@group_option
@yes_option
def release(queue: str, url: str | None, group: str | None, yes: bool) -> None:
    """Return claimed messages to the front of QUEUE. Asks for confirmation.

    Use it for queries that are dead and will not be restarted. A query that still runs stops with
    an error, and its messages are redelivered. Prints the number of messages returned.
    """
    from ackq.queue.claims_client import Claims

    found = _claims(queue, url, group)
    if not found:
        click.echo(0)
        return
    groups = groups_of(found, yes)
    released = 0
    end = end_of(url, queue)
    for name in groups:
        with Claims.from_url(url, queue, name, pop_from=end) as opened:
            released += opened.release()
    click.echo(released)


def _claims(queue: str, url: str | None, group: str | None) -> list[HeldClaim]:
    with open_queue(url, queue) as opened:
        return [each for each in opened.claims() if group in (None, each.group)]


def print_claims(found: Sequence[HeldClaim], as_json: bool) -> None:
    """Print claims as a table, or as lines of JSON."""
    if as_json:
        for each in found:
            print_json(asdict(each))
        return
    print_table(
        ("group", "batch", "messages", "lease ends"),
        [(each.group, each.batch, each.rows, _lease(each.lease_ends_in)) for each in found],
    )


def groups_of(found: Sequence[HeldClaim], yes: bool) -> list[str]:
    """Return the groups whose claims are to be released, after confirmation."""
    groups = sorted({each.group for each in found})
    count = sum(each.rows for each in found)
    ask(f"Take {count:,} messages from {', '.join(groups)}?", yes)
    return groups


def _lease(seconds: float | None) -> str:
    if seconds is None:
        return "is going back"
    shown = span(abs(seconds)) if sys.stdout.isatty() else f"{abs(seconds):,.0f} s"
    return f"in {shown}" if seconds >= 0 else f"{shown} ago"
