"""``ackq top``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

import click
import redis

from ackq.cli.options import examples, json_option, time_field_option, url_option
from ackq.cli.output import print_json
from ackq.cli.tables import print_table
from ackq.cli.top.screen import Screen
from ackq.cli.top.table import values
from ackq.errors import AckqError
from ackq.ops.readings import Reading
from ackq.ops.samples import Row, Sample, Sampler, Sort, arranged

if TYPE_CHECKING:
    from ackq.ops.attention.watch import Attention
    from ackq.ops.overview import Overview

#: Seconds for which consumers go on counting after a sample, of two samples and of a live view,
#: whose samples of many queues are further apart. Twice the time between samples is added.
GRACE, WINDOW = 5.0, 150.0
#: Seconds between two samples that show whether messages are taken, for the order by troubles.
LOOK = 2.0


@click.command(
    epilog=examples(
        "ackq top", "ackq top jobs --once", "ackq top --sort dead --once --every 1 --json"
    )
)
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@click.option(
    "--every",
    type=click.FloatRange(0.1, 1800),
    metavar="SECONDS",
    help="Time between two samples, at least 12 ms for each queue.  [1]",
)
@click.option(
    "--sort",
    type=click.Choice(get_args(Sort)),
    help="Order of the queues.  [backlog; outside a terminal, name]",
)
@time_field_option
@click.option(
    "--once",
    is_flag=True,
    help="Print one sample and exit; take two with --every, for rates, and with --sort failing."
    " The default outside a terminal.",
)
@json_option
def top(
    queues: tuple[str, ...],
    url: str | None,
    every: float | None,
    sort: Sort | None,
    time_field: str | None,
    once: bool,
    as_json: bool,
) -> None:
    """Watch QUEUES of every kind, or all that are found, until you press q or Ctrl-C.

    Keys: the arrows, j, k, PgUp, PgDn, Home and End select a queue. Enter shows it in full: totals,
    dead letters by cause, a topic's consumers, shards or partitions, workers and what they work on.
    Esc goes back. s and S change the order, r reverses it.

    Queues are found, on all nodes of a cluster, by the keys that consumers create; a list that no
    consumer has used yet must be named. Name RSMQ's queues NAMESPACE:QUEUE. The shards of a sharded
    queue share a row, and so do the partitions of a delay queue.

    A topic's "ready" is the lag of the consumer that is furthest behind. RSMQ does not distinguish
    messages in flight from delayed ones; both are "in flight" here.

    While top runs, the consumers of list and delay queues count acked messages, ended leases and
    so on. Pushes and takes are derived from these counts and the queue's size.

    "oldest ready" is the time for which the oldest ready message has been ready. A list queue knows
    it only if its messages carry a time: see --time-field.

    "oldest lease" is the time since the lease that ends first was taken or last renewed, not how
    long a job has run: workers renew their leases. It is the timeout minus the time left, so it is
    unknown until a message is taken while top runs, or if several timeouts are in use. "late" is
    the time since a lease ended whose message has not been redelivered.

    With many queues, samples are further apart, so that Redis spends less than 1 % of a core on
    them.
    """
    from ackq.cli.top.live import watch
    from ackq.core.client import client_of
    from ackq.ops.attention.watch import Attention
    from ackq.ops.overview import Overview

    terminal = sys.stdout.isatty()
    once = once or as_json or not terminal
    if once and sort == "failing" and every is None:
        every = LOOK
    pause = 1.0 if every is None else every
    window = None if once and every is None else pause * 2 + (GRACE if once else WINDOW)
    chosen: Sort = sort or ("backlog" if terminal and not as_json else "name")
    with (
        client_of(url) as client,
        Attention(client, once=once) as attention,
        Overview(client, queues, window=window, time_field=time_field) as overview,
        _searching(queues),
    ):
        if once:
            sample = _sample(overview, attention, every)
        else:
            watch(overview, attention, client, pause, chosen)
            return
    rows = arranged(sample.rows, chosen)
    if as_json:
        for row in rows:
            print_json(_fields(row))
    elif not terminal:
        print_table((), [values(row) for row in rows])
    else:
        _print(sample, rows, chosen)


def _sample(overview: Overview, attention: Attention, every: float | None) -> Sample:
    """Read one sample; with ``every``, two, for rates."""
    sampler = Sampler(overview, attention)
    sample = sampler.take()
    if every is not None:
        sample.snapshot.check()
        time.sleep(every)
        sample = sampler.take()
    sample.snapshot.check()
    return sample


def _print(sample: Sample, rows: Sequence[Row], sort: Sort) -> None:
    """Print one sample in a terminal."""
    from rich.console import Console

    from ackq.cli.top.table import table

    console = Console(highlight=False)
    console.print(table(sample, rows, Screen(sort), console.width, len(rows), live=False))


def _fields(row: Row) -> dict[str, Any]:
    """Return a row as JSON has it. A list queue has all counts of ``ackq stats``, too."""
    reading = row.reading
    others = {**reading.states, "paused": reading.paused}
    return {
        "queue": reading.name,
        "kind": reading.kind,
        "backlog": reading.backlog,
        **(asdict(reading.stats) if reading.stats else others),
        **{f"{name}_per_second": per_second for name, per_second in row.rates.items()},
        "oldest_lease_age": reading.lease_age,
        "overdue": reading.overdue or None,
        "oldest_ready": reading.oldest_ready,
        "workers": reading.workers,
        "lags": reading.lags,
        "troubles": [each.key.kind for each in row.troubles],
        "dead_by_reason": reading.totals.dead if reading.totals else {},
        "parts": [_part(part) for part in reading.parts],
    }


def _part(reading: Reading) -> Mapping[str, Any]:
    return {"queue": reading.name, **(asdict(reading.stats) if reading.stats else reading.states)}


@contextmanager
def _searching(queues: tuple[str, ...]) -> Iterator[None]:
    """Add advice to the error for users who may read queues but not search for them."""
    try:
        yield
    except redis.exceptions.NoPermissionError as error:
        if queues:
            raise
        raise AckqError(f"{error}: name the queues, as in ackq top jobs") from error
