"""``ackq top``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
import redis

from ackq.cli.connection import FLEXIBLE, examples, json_option, print_json, print_table, url_option
from ackq.errors import redact
from ackq.message import QueueStats

if TYPE_CHECKING:
    from rich.table import Table

    from ackq.protocol.discovery import Sample
    from ackq.sync.monitor import Monitor

COLUMNS = ("queue", "ready", "in flight", "delayed", "dead", "change/s", "lease ends", "")
#: SCANs of one look, 1,000 keys each: few while more looks follow, many if it is the only one.
LIVE_STEPS, ONCE_STEPS = 10, 1000


@click.command(epilog=examples("ackq top", "ackq top jobs --once", "ackq top --json"))
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@click.option("--every", type=click.FloatRange(0.1, 3600), default=1.0, metavar="SECONDS",
              help="Time between two looks.  [1]")  # fmt: skip
@click.option("--once", is_flag=True, help="Look once; so it does when it is not in a terminal.")
@json_option
def top(queues: tuple[str, ...], url: str | None, every: float, once: bool, as_json: bool) -> None:
    """Watch QUEUES, or all that are found, until Ctrl-C.

    Queues are found by the keys that consumers make beside them; name a list that nobody took
    from yet. change/s is by how much ready, in flight and delayed together grew or shrank. A
    pushed message carries no time, so nothing is said of the age of what waits; of leases it is
    said when the first one ends, or how long ago it did without anybody taking the message.
    """
    from ackq.sync.client import client_of
    from ackq.sync.monitor import Monitor

    once = once or as_json or not sys.stdout.isatty()
    with (
        client_of(url) as client,
        Monitor(client, queues, ONCE_STEPS if once else LIVE_STEPS) as monitor,
    ):
        if not once:
            _watch(monitor, every)
            return
        seen = monitor.look()
    if as_json:
        for name, stats in seen.queues.items():
            print_json({"queue": name, **asdict(stats)})
    else:
        print_table(COLUMNS, _rows(seen, None))


def _watch(monitor: Monitor, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    try:
        with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
            for screen in _screens(monitor, every):
                live.update(screen, refresh=True)
    except KeyboardInterrupt:
        return


def _screens(monitor: Monitor, every: float) -> Iterator[Table]:
    seen: Sample | None = None
    before: Sample | None = None
    while True:
        trouble = ""
        try:
            seen, before = monitor.look(), seen
        except (redis.ConnectionError, redis.TimeoutError) as error:
            trouble = redact(str(error)) or type(error).__name__
            if seen is None:
                raise
        yield _table(seen, before, trouble)
        time.sleep(every)


def _table(seen: Sample, before: Sample | None, trouble: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    note = Text(trouble, "bold red") if trouble else Text("Ctrl-C ends it", "dim")
    table = Table(box=None, header_style="bold", pad_edge=False, title=_title(seen, before),
                  title_justify="left", title_style="", caption=note,
                  caption_justify="left")  # fmt: skip
    for column in COLUMNS:
        number = column not in ("queue", "lease ends", "")
        table.add_column(
            column, justify="right" if number else "left", no_wrap=column not in FLEXIBLE
        )
    for row in _rows(seen, before):
        cells = zip(COLUMNS, row, strict=True)
        table.add_row(*(Text(cell, _style(column, cell), no_wrap=True, overflow="ellipsis")
                        for column, cell in cells))  # fmt: skip
    return table


def _title(seen: Sample, before: Sample | None) -> str:
    from ackq.protocol.discovery import rate

    text = f"{len(seen.queues)} queues  {time.strftime('%H:%M:%S')}"
    if before is None:
        return text
    each = rate(seen.commands, before.commands, seen.at - before.at)
    return text if each is None else f"{text}  server: {each:,.0f} commands/s"


def _rows(seen: Sample, before: Sample | None) -> list[list[str]]:
    rows = []
    for name, stats in seen.queues.items():
        earlier = before.queues.get(name) if before else None
        seconds = seen.at - before.at if before else 0.0
        rows.append([
            name, f"{stats.ready:,}", f"{stats.in_flight:,}", f"{stats.delayed:,}",
            f"{stats.dead:,}", _change(stats, earlier, seconds), _lease(stats.lease_ends_in),
            "paused" if stats.paused else "",
        ])  # fmt: skip
    return rows


def _change(now: QueueStats, before: QueueStats | None, seconds: float) -> str:
    from ackq.protocol.discovery import rate

    change = rate(_living(now), _living(before) if before else None, seconds)
    return "-" if change is None else f"{change:+,.0f}"


def _living(stats: QueueStats) -> int:
    return stats.ready + stats.in_flight + stats.delayed


def _lease(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"in {_span(seconds)}" if seconds >= 0 else f"{_span(-seconds)} ago"


def _span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _style(column: str, cell: str) -> str:
    if column == "dead" and cell != "0":
        return "red"
    if cell == "paused" or (column == "lease ends" and cell.endswith("ago")):
        return "yellow"
    return ""
