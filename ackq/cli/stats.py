"""``ackq stats``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from redis.exceptions import ResponseError

from ackq.cli.connection import (
    examples,
    json_option,
    local_time,
    on_queue_end,
    open_any,
    print_json,
    print_table,
    time_field_option,
)
from ackq.core.counters import LONGEST_WATCH, Counters
from ackq.ops.trials import is_denial

if TYPE_CHECKING:
    from ackq.queue.client import Queue
    from ackq.sharded.client import ShardedQueue

totals_option = click.option(
    "--totals",
    is_flag=True,
    help="Also show how many messages were pushed, taken, acked and so on since counting began."
    " Counting begins with the first call and ends a week after the last one.",
)


@click.command(epilog=examples("ackq stats jobs", "ackq stats jobs --totals --json"))
@on_queue_end
@totals_option
@time_field_option
@json_option
def stats(queue: str, url: str | None, totals: bool, time_field: str | None, as_json: bool) -> None:
    """Count the messages of QUEUE by state.

    Each message is counted once, as ready, in_flight, delayed or dead. expired (lease ended) and
    due (delay over) are parts of ready; claimed, the messages in claims, is part of in_flight.
    oldest_ready is the time for which the oldest ready message has been ready. It is unknown if
    that message contains no time. For a sharded queue, these are the sums of its shards; ackq
    sharded stats shows each.
    """
    with open_any(url, queue, time_field=time_field) as opened:
        counts = asdict(opened.stats()) | {"oldest_ready": _oldest_ready(opened)}
        counted = opened.counters(LONGEST_WATCH) if totals else None
    if as_json:
        print_json(counts | ({"totals": total_fields(counted)} if counted else {}))
        return
    rows = [(name, shown(value)) for name, value in counts.items()]
    print_table(("", queue), [*rows, *(total_rows(counted) if counted else ())])


def _oldest_ready(queue: Queue | ShardedQueue) -> float | None:
    try:
        return queue.oldest_ready()
    except ResponseError as error:
        if is_denial(error):  # the user may count, but read no message
            return None
        raise


def total_fields(counted: Counters) -> dict[str, Any]:
    """Return the totals as JSON shows them."""
    fields = asdict(counted)
    fields.pop("timeouts", None)
    return fields


def total_rows(counted: Counters) -> Iterator[tuple[str, str | float | None]]:
    """Yield the rows of the table that show the totals."""
    yield "since", local_time(counted.since)
    for name in ("pushed", "taken", "acked", "returned", "nacked", "released"):
        yield name, shown(getattr(counted, name))
    for reason, number in sorted(counted.dead.items()):
        yield f"dead: {reason}", shown(number)
    yield "redriven", shown(counted.redriven)
    yield "dropped", shown(counted.dropped)
    yield "dead letters dropped", shown(counted.dead_dropped)


def shown(value: float | None) -> str | float | None:
    """Format a count, a flag or a number of seconds for a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f} s" if sys.stdout.isatty() else round(value, 1)
    return value
