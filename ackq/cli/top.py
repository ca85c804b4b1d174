"""``ackq top``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
import redis

from ackq.cli.connection import examples, json_option, print_json, print_table, span, url_option
from ackq.cli.keyboard import keys
from ackq.errors import AckqError, redact
from ackq.escaping import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleDimensions
    from rich.table import Table

    from ackq.cli.activity import Activity
    from ackq.ops.monitor import Monitor, Sample

#: Column headings for pipes and files; in a terminal they are split into two lines.
COLUMNS = ("queue", "ready", "in flight", "delayed", "dead", "pushed/s", "taken/s", "acked/s",
           "returned/s", "oldest lease", "")  # fmt: skip
#: SCANs per sample, 1,000 keys each: few for a live view, many for a single sample.
LIVE_STEPS, ONCE_STEPS = 10, 1000
#: Columns in the order in which they are left out of a narrow terminal.
DROPPED = ("returned/s", "delayed", "dead", "pushed/s", "acked/s", "taken/s")
#: Minimum width of a name.
NAME = 12
#: Width of the terminal from which on gaps are wide.
WIDE = 120
#: Lines of the screen that are not rows.
FRAME = 5
#: Seconds for which consumers go on counting after the last sample.
GRACE = 5.0


@click.command(
    epilog=examples("ackq top", "ackq top jobs --once", "ackq top jobs --once --every 1 --json")
)
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@click.option("--every", type=click.FloatRange(0.1, 1800), metavar="SECONDS",
              help="Time between two samples.  [1]")  # fmt: skip
@click.option("--once", is_flag=True, help="Print one sample and exit; with --every, take two, for"
              " rates. The default outside a terminal.")  # fmt: skip
@json_option
def top(
    queues: tuple[str, ...], url: str | None, every: float | None, once: bool, as_json: bool
) -> None:
    """Watch QUEUES, or all queues found, until you press q or Ctrl-C.

    Queues are found, on all nodes of a cluster, by the keys that consumers create; a list that no
    consumer has used yet must be named. The shards of a sharded queue share a row.

    While top runs, consumers count taken and acked messages and ended leases. Pushes are derived
    from these counts and the queue's size. A pushed message carries no time, so the age of ready
    messages is unknown.

    "oldest lease" is the time since the lease that ends first was taken or last renewed, not how
    long a job has run: workers renew their leases. It is the timeout minus the time left, so it is
    unknown until a message is taken while top runs, or if several timeouts are in use. "late" is
    the time since a lease ended whose message has not been redelivered.
    """
    from ackq.core.client import client_of
    from ackq.ops.monitor import Monitor

    once = once or as_json or not sys.stdout.isatty()
    pause = 1.0 if every is None else every
    window = None if once and every is None else pause * 2 + GRACE
    steps = ONCE_STEPS if once else LIVE_STEPS
    with (
        client_of(url) as client,
        Monitor(client, queues, steps, window) as monitor,
        _searching(queues),
    ):
        if not once:
            _watch(monitor, pause)
            return
        seen, before = monitor.sample(), None
        if every is not None:
            time.sleep(every)
            seen, before = monitor.sample(), seen
    if as_json:
        found = _activities(seen, before)
        for name, each in found.items():
            watched = seen.queues[name].stats
            print_json({"queue": name, **asdict(watched), **asdict(each)})
    else:
        _print(seen, before)


def _print(seen: Sample, before: Sample | None) -> None:
    """Print one sample: shortened in a terminal, in full to a pipe or a file."""
    from ackq.cli.activity import rows

    if not sys.stdout.isatty():
        found = rows(_activities(seen, before))
        print_table(COLUMNS, [_values(name, each) for name, each in found.items()])
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_table(seen, before, "", console.size._replace(height=sys.maxsize), ""))


@contextmanager
def _searching(queues: tuple[str, ...]) -> Iterator[None]:
    """Add advice to the error for users who may read queues but not search for them."""
    try:
        yield
    except redis.exceptions.NoPermissionError as error:
        if queues:
            raise
        raise AckqError(f"{error}: name the queues, as in ackq top jobs") from error


def _activities(seen: Sample, before: Sample | None) -> dict[str, Activity]:
    from ackq.cli.activity import activity

    earlier = before.queues if before else {}
    return {name: activity(each, earlier.get(name)) for name, each in seen.queues.items()}


def _watch(monitor: Monitor, every: float) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    try:
        with _screen(console) as show, keys() as pressed:
            for seen, before, trouble in _looks(monitor, lambda: pressed(every)):
                show(_table(seen, before, trouble, console.size))
    except KeyboardInterrupt:
        return


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[Table], None]]:
    """Yield a function that shows a table in place of the last one, or below it if it must."""
    from rich.live import Live

    if console.is_dumb_terminal or not console.is_terminal:
        yield console.print
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda table: live.update(table, refresh=True)


def _looks(
    monitor: Monitor, ends: Callable[[], bool]
) -> Iterator[tuple[Sample, Sample | None, str]]:
    seen: Sample | None = None
    before: Sample | None = None
    while True:
        trouble = ""
        try:
            seen, before = monitor.sample(), seen
        except (redis.ConnectionError, redis.TimeoutError) as error:
            trouble = redact(str(error)) or type(error).__name__
            if seen is None:
                raise
        yield seen, before, trouble
        if ends():
            return


def _table(
    seen: Sample, before: Sample | None, trouble: str, size: ConsoleDimensions,
    advice: str = "q ends it",
) -> Table:  # fmt: skip
    from rich.table import Table
    from rich.text import Text

    from ackq.cli.activity import rows

    found = rows(_activities(seen, before))
    shown = _largest(found, max(1, size.height - FRAME))
    note = Text(advice, "dim")
    if len(shown) < len(found):
        note = Text(f"{len(found) - len(shown)} smaller ones are not shown; name some", "yellow")
    if trouble:
        note = Text(printable(trouble), "bold red")
    cells = [dict(zip(COLUMNS, _cells(name, each), strict=True)) for name, each in shown.items()]
    for row in cells:
        row["oldest lease"] = row[""] or row["oldest lease"]
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=size.width < WIDE,
                  title=_title(seen, before, len(found)), title_justify="left", title_style="",
                  caption=note or None, caption_justify="left")  # fmt: skip
    columns = _columns(cells, size.width)
    for column in columns:
        flexible = column == "queue"
        table.add_column(_heading(column), justify="left" if flexible else "right",
                         no_wrap=not flexible, vertical="bottom")  # fmt: skip
    for row in cells:
        table.add_row(*(Text(row[column], _style(column, row[column]), no_wrap=True,
                             overflow="ellipsis") for column in columns))  # fmt: skip
    return table


def _columns(cells: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Return the columns that fit, so that no number is cut."""
    columns = [column for column in COLUMNS if column]
    gap = 1 if width < WIDE else 2

    def needed() -> int:
        numbers = (max(map(len, (*_heading(column).split("\n"), *(row[column] for row in cells))))
                   for column in columns[1:])  # fmt: skip
        return NAME + sum(gap + each for each in numbers)

    for column in DROPPED:
        if needed() > width:
            columns.remove(column)
    return columns


def _heading(column: str) -> str:
    return column.replace(" ", "\n").replace("/s", "\n/s")


def _largest(found: dict[str, Activity], most: int) -> dict[str, Activity]:
    """Return the largest queues, at most ``most``."""
    if len(found) <= most:
        return found

    def size(name: str) -> int:
        return found[name].ready + found[name].in_flight + found[name].delayed

    kept = set(sorted(found, key=size, reverse=True)[:most])
    return {name: each for name, each in found.items() if name in kept}


def _title(seen: Sample, before: Sample | None, queues: int) -> str:
    from ackq.ops.discovery import rate

    text = f"{queues} {'queue' if queues == 1 else 'queues'}  {time.strftime('%H:%M:%S')}"
    each = None
    if before and seen.at is not None and before.at is not None:
        each = rate(seen.commands, before.commands, seen.at - before.at)
    return text if each is None else f"{text}  server: {each:,.0f} commands/s"


def _cells(name: str, each: Activity) -> list[str]:
    return [
        printable(name), *map(_count, _counts(each)), *map(_rate, _rates(each)),
        _lease(each), "paused" if each.paused else "",
    ]  # fmt: skip


def _values(name: str, each: Activity) -> list[object]:
    rates = (None if rate is None else round(rate, 1) for rate in _rates(each))
    return [name, *_counts(each), *rates, _lease(each), "paused" if each.paused else ""]


def _counts(each: Activity) -> tuple[int, ...]:
    return each.ready, each.in_flight, each.delayed, each.dead


def _rates(each: Activity) -> tuple[float | None, ...]:
    return (
        each.pushed_per_second, each.taken_per_second,
        each.acked_per_second, each.returned_per_second,
    )  # fmt: skip


def _count(count: int) -> str:
    return f"{count:,}" if count < 1_000_000 else f"{count / 1e6:,.2f}M"


def _rate(each: float | None) -> str:
    if each is None:
        return "-"
    if each >= 1_000_000:
        return f"{each / 1e6:,.1f}M"
    if each >= 10_000:
        return f"{each / 1000:.1f}k"
    return f"{each:.1f}" if 0 < each < 10 else f"{each:,.0f}"


def _lease(each: Activity) -> str:
    if each.overdue is not None:
        return f"{span(each.overdue)} late"
    return "-" if each.oldest_lease_age is None else span(each.oldest_lease_age)


def _style(column: str, cell: str) -> str:
    if column == "dead" and cell != "0":
        return "red"
    return "yellow" if cell.endswith(("late", "paused")) and column == "oldest lease" else ""
