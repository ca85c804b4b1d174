"""``ackq stats``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click
from redis.exceptions import NoPermissionError

from ackq.cli import NOTHING
from ackq.cli.options import examples, json_option, time_field_option
from ackq.cli.output import print_json
from ackq.cli.queues import on_any_queue, open_any
from ackq.cli.tables import print_table
from ackq.cli.times import local_time
from ackq.core.counters import MAX_WATCH
from ackq.escaping import printable
from ackq.ops.kinds.kind import Opened

#: The counts of a table, in this order: those before the dead, by reason, and those after.
BEFORE = ("pushed", "taken", "acked", "returned", "nacked", "released")
AFTER = {"redriven": "redriven", "dropped": "dropped", "dead_dropped": "dead letters dropped"}
#: Counts that are times since the epoch.
TIMES = ("since", "created", "modified")
#: The columns of the table of parts.
COLUMNS = ("ready", "in_flight", "delayed", "dead", "paused")


@click.command(
    epilog=examples(
        "ackq stats jobs", "ackq stats jobs --totals --json", "ackq stats orders --parts"
    )
)
@on_any_queue("stats")
@click.option(
    "--totals",
    is_flag=True,
    help="Also show how many messages were pushed, taken, acked and so on since counting began."
    " Counting begins with the first call and ends a week after the last one. RSMQ counts since the"
    " queue was created.",
)
@click.option("--parts", is_flag=True, help="Show each shard or partition, then the total.")
@time_field_option
@json_option
@click.pass_context
def stats(
    ctx: click.Context,
    queue: str,
    url: str | None,
    totals: bool,
    parts: bool,
    time_field: str | None,
    as_json: bool,
) -> None:
    """Count the messages of QUEUE by state. Exit code 1 if there is no such queue.

    Each message is counted once, as ready, in_flight, delayed or dead. expired (lease ended) and
    due (delay over) are parts of ready; claimed, the messages in claims, is part of in_flight.
    oldest_ready is the time for which the oldest ready message of a list has been ready. It is
    unknown if that message contains no time. For a sharded or partitioned queue, these are sums.

    A list or delay queue that is empty has no keys, so Redis cannot tell it from one that never
    existed. It is found while a worker, or --totals, counts its messages. Otherwise the exit code
    is 1, and only --json prints its zeros.

    For a queue of RSMQ, NAMESPACE:QUEUE, prints its settings and counts. msgs includes hiddenmsgs,
    the messages that were received or are delayed. For topics, see ackq topic stats.
    """
    if parts and totals:
        raise click.UsageError("give --parts or --totals")
    with open_any(url, queue, "stats", time_field=time_field) as opened:
        rows = [(part.name, opened.kind.stats(part)) for part in opened.parts() if parts]
        counts = opened.kind.stats(opened.client)
        missing = not totals and not _has_keys(opened)
        counted = opened.client.counters(MAX_WATCH) if totals else None
    if parts and (as_json or not missing):
        _print_parts([*rows, (queue, counts)], as_json)
    elif as_json or not missing:
        _print(queue, counts, asdict(counted) if counted else {}, as_json)
    if missing:
        text = f"ackq: there is no queue {queue!r}, or it is empty; ackq queues lists what there is"
        click.echo(printable(text), err=True)
        ctx.exit(NOTHING)


def _print(queue: str, counts: dict[str, Any], fields: dict[str, Any], as_json: bool) -> None:
    """Print the counts of a queue, and its totals if ``fields`` has them."""
    fields.pop("timeouts", None)
    if as_json:
        print_json(counts | ({"totals": fields} if fields else {}))
        return
    rows = [(name, _shown(name, value)) for name, value in counts.items()]
    print_table(("", queue), [*rows, *(_total_rows(fields) if fields else ())])


def _has_keys(opened: Opened) -> bool:
    try:
        return opened.has_keys()
    except NoPermissionError:
        return True


def _print_parts(rows: list[tuple[str, dict[str, Any]]], as_json: bool) -> None:
    """Print the counts of each part, and of the queue as the last one."""
    if as_json:
        for name, counts in rows:
            print_json({"queue": name, **counts})
        return
    columns = [column for column in COLUMNS if column in rows[-1][1]]
    rows[-1] = ("total", rows[-1][1])
    print_table(
        ("queue", *(column.replace("_", " ") for column in columns)),
        [(name, *(_shown(column, counts[column]) for column in columns)) for name, counts in rows],
    )


def _total_rows(fields: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the rows of the table that show the totals; each kind of queue has some of them."""
    names = ("since", *BEFORE, "dead", *AFTER)
    for name in (field for field in names if field in fields):
        if isinstance(fields[name], dict):
            for reason, number in sorted(fields[name].items()):
                yield f"dead: {reason}", number
        else:
            yield AFTER.get(name, name), _shown(name, fields[name])


def _shown(name: str, value: object) -> object:
    """Format a count, a flag, a time or a number of seconds for a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in TIMES and isinstance(value, int | float):
        return local_time(value)
    if isinstance(value, float):
        return f"{value:,.1f} s" if sys.stdout.isatty() else round(value, 1)
    return value
