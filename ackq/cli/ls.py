"""``ackq queues``, also ``ackq ls``."""

from __future__ import annotations

from typing import Any

import click

from ackq.cli import NOTHING
from ackq.cli.options import examples, json_option, url_option
from ackq.cli.output import print_json
from ackq.cli.tables import print_table
from ackq.core.client import client_of
from ackq.ops.overview import Overview
from ackq.ops.plain_lists import plain_lists
from ackq.ops.readings import Reading

COLUMNS = ("queue", "kind", "ready", "in_flight", "delayed", "dead", "notes")


@click.command(epilog=examples("ackq queues", "ackq ls --json"))
@url_option
@json_option
@click.pass_context
def ls(ctx: click.Context, url: str | None, as_json: bool) -> None:
    """List the queues of a server, and its bare lists.

    Queues of all kinds are listed. A bare list is one beside which ackq stores nothing now: a queue
    without messages in flight, delayed or dead, or the list of another program. An empty list queue
    has no keys, so it is missing unless its workers or its counts are recorded. A million keys are
    examined at most. Also called ackq ls. Exit code 1 if there is nothing.
    """
    with client_of(url) as client, Overview(client) as overview:
        snapshot = overview.read()
        snapshot.check()
        queues = snapshot.queues
        known = {each.name for queue in queues for each in (queue, *queue.parts)}
        lists = plain_lists(client, known)
    rows = [_row(each) for each in queues]
    rows += [_row_of_list(name, length) for name, length in lists.items()]
    rows.sort(key=lambda row: str(row["queue"]))
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        titles = tuple(each.replace("_", " ") for each in COLUMNS)
        print_table(titles, [[_shown(row[each]) for each in COLUMNS] for row in rows])
    if not snapshot.complete:
        click.echo("ackq: only a part of the keys was examined", err=True)
    if not rows:
        click.echo("ackq: there are no queues and no lists", err=True)
        ctx.exit(NOTHING)


def _row(reading: Reading) -> dict[str, Any]:
    states = {name: reading.states.get(name) for name in COLUMNS[2:6]}
    if reading.kind == "topic":
        states["ready"] = reading.backlog  # of the consumer that is furthest behind
    return {
        "queue": reading.name,
        "kind": reading.kind,
        **states,
        "notes": "paused" if reading.paused else "",
    }


def _row_of_list(name: str, length: int) -> dict[str, Any]:
    counts = {"ready": length, "in_flight": 0, "delayed": 0, "dead": 0}
    return {"queue": name, "kind": "list", **counts, "notes": "bare list"}


def _shown(value: Any) -> Any:
    return "" if value is None else value
