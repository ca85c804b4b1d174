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

#: As tables in files and pipes name them; a terminal has them in two lines.
COLUMNS = ("queue", "ready", "in flight", "delayed", "dead", "pushed/s", "taken/s", "acked/s",
           "returned/s", "oldest lease", "")  # fmt: skip
#: SCANs of one look, 1,000 keys each: few while more looks follow, many if it is the only one.
LIVE_STEPS, ONCE_STEPS = 10, 1000
#: What is left out first where a terminal is too narrow.
DROPPED = ("returned/s", "delayed", "dead", "pushed/s", "acked/s", "taken/s")
#: Fewest columns of a name.
NAME = 12
#: From how many columns on there are wide gaps.
WIDE = 120
#: Lines of the screen that are no row.
FRAME = 5
#: Seconds that consumers count on after a look that no other follows.
GRACE = 5.0


@click.command(
    epilog=examples("ackq top", "ackq top jobs --once", "ackq top jobs --once --every 1 --json")
)
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@click.option("--every", type=click.FloatRange(0.1, 1800), metavar="SECONDS",
              help="Time between two looks.  [1]")  # fmt: skip
@click.option("--once", is_flag=True, help="Look once, or with --every twice, so far apart."
              " So it does when it is not in a terminal.")  # fmt: skip
@json_option
def top(
    queues: tuple[str, ...], url: str | None, every: float | None, once: bool, as_json: bool
) -> None:
    """Watch QUEUES, or all that are found, until you press q or Ctrl-C.

    Queues are found by the keys that consumers make beside them, on all nodes of a cluster; name
    a list that nobody took from yet. The shards of a sharded queue are one row.

    Consumers count what they take, ack and take back from leases that ended, as long as somebody
    watches. What was pushed is derived from that and from what there is. A pushed message
    carries no time, so nothing is said of the age of what waits.

    The oldest lease is the time since the lease that ends first was taken or last renewed. A
    worker renews its leases, so it is not how long a job has run. It is the timeout less what is
    left, and so not known before a message is taken while somebody watches, nor where several
    timeouts are in use. A lease that is over, with its message still there, is so much late.
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
        seen, before = monitor.look(), None
        if every is not None:
            time.sleep(every)
            seen, before = monitor.look(), seen
    if as_json:
        found = _activities(seen, before)
        for name, each in found.items():
            watched = seen.queues[name].stats
            print_json({"queue": name, **asdict(watched), **asdict(each)})
    else:
        _print(seen, before)


def _print(seen: Sample, before: Sample | None) -> None:
    """Print one look: short for eyes, whole for the programs that read a pipe or a file."""
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
    """Say what a user can do who may look at queues and not search for them."""
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
    """Yield what shows a table: in place of the last one, or below it where that cannot be."""
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
            seen, before = monitor.look(), seen
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
    """Return the columns that there is room for, so that no number is cut."""
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
    """Return as many rows as there is room for."""
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
