"""Show the demo: a live view in a terminal, one line per second elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ackq.demo.account import Check
from ackq.demo.tally import counted

#: Seconds between two lines without a terminal.
LINE_EVERY = 1.0
#: Most columns of the live view: wider lines are hard to follow.
WIDEST = 110
#: Events that the live view shows.
EVENTS_SHOWN = 6
_STATES = {"running": "green", "killed": "red", "frozen": "cyan", "ended": "dim", "hung": "red"}


@dataclass(frozen=True)
class WorkerRow:
    """The current state of one worker."""

    name: str
    pid: int
    state: str
    processed: int
    held: int


@dataclass(frozen=True)
class Snapshot:
    """The current state of the demo."""

    elapsed: float
    pushed: int
    ready: int
    in_flight: int
    processed: int
    acked: int
    redelivered: int
    refused: int
    workers: Sequence[WorkerRow]


class Display(Protocol):
    """An output for the demo. A context manager, which closes what it opened."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def open(self, title: str, total: int, where: str) -> None:
        """Show what is about to run."""

    def update(self, snapshot: Snapshot) -> None:
        """Show the progress."""

    def tell(self, elapsed: float, text: str) -> None:
        """Show an event."""

    def account(self, checks: Sequence[Check]) -> None:
        """Show the account."""


def display_on(console: Console) -> Display:
    """Return the display for this console: live only in a terminal."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


def make_console() -> Console:
    """Return a console on stdout; rich honours NO_COLOR by itself."""
    return Console(file=sys.stdout, highlight=False, emoji=False)


class PlainDisplay:
    """Plain lines, suitable for a log."""

    def __init__(self, console: Console) -> None:
        # Without a terminal rich would assume 80 columns, and wrap.
        self._console = Console(
            file=console.file, width=10_000, highlight=False, emoji=False, color_system=None
        )
        self._total = 0
        self._next = 0.0

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: nothing is open."""

    def open(self, title: str, total: int, where: str) -> None:
        self._total = total
        self._print(f"ackq demo: {title}: {counted(total, 'message')} on the list {where}")

    def update(self, snapshot: Snapshot) -> None:
        if snapshot.elapsed >= self._next:
            self._next = snapshot.elapsed + LINE_EVERY
            self._print(
                f"{snapshot.elapsed:5.1f} s  pushed {snapshot.pushed:,}/{self._total:,}"
                f"  ready {snapshot.ready:,}  in flight {snapshot.in_flight:,}"
                f"  processed {snapshot.processed:,}  redelivered {snapshot.redelivered:,}"
            )

    def tell(self, elapsed: float, text: str) -> None:
        self._print(f"{elapsed:5.1f} s  * {text}")

    def account(self, checks: Sequence[Check]) -> None:
        for check in checks:
            self._print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<12} {check.detail}")
        self._print(verdict(checks))

    def _print(self, text: str) -> None:
        self._console.print(Text(text))
        self._console.file.flush()


class LiveDisplay:
    """A view that is redrawn while the demo runs, and stays on screen at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False)
        self._total = 1
        self._events: list[str] = []
        self._last: Snapshot | None = None

    def __enter__(self) -> LiveDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def open(self, title: str, total: int, where: str) -> None:
        self._total = total
        self._console.print(f"[bold]ackq demo[/]  {escape(title)}: {counted(total, 'message')}")
        self._console.print(f"[dim]bare LPUSH onto the list {where}[/]\n")
        self._live.start()

    def update(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        self._draw()

    def tell(self, elapsed: float, text: str) -> None:
        self._events.append(f"[dim]{elapsed:5.1f} s[/]  {escape(text)}")
        self._draw()

    def account(self, checks: Sequence[Check]) -> None:
        table = Table.grid(padding=(0, 2))
        table.add_column()
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for check in checks:
            mark = "[green]ok[/]" if check.ok else "[bold red]FAIL[/]"
            table.add_row(mark, check.name, escape(check.detail))
        self._console.print()
        self._console.print(table)
        passed = all(check.ok for check in checks)
        self._console.print(f"\n[bold {'green' if passed else 'red'}]{verdict(checks)}[/]")

    def _draw(self) -> None:
        if self._last is not None:
            width = min(self._console.width, WIDEST)
            self._live.update(self._view(self._last, width), refresh=True)

    def _view(self, now: Snapshot, width: int) -> RenderableType:
        counts = (
            f"ready [bold]{now.ready:,}[/]   in flight [bold]{now.in_flight:,}[/]   "
            f"acked [bold]{now.acked:,}[/]   redelivered [bold]{now.redelivered:,}[/]   "
            f"stale acks refused [bold]{now.refused:,}[/]"
        )
        events = [Text.from_markup(event) for event in self._events[-EVENTS_SHOWN:]]
        return Group(
            self._bars(now, width), Text(), Text.from_markup(counts), Text(),
            _workers(now), *([Text(), *events] if events else []),
        )  # fmt: skip

    def _bars(self, now: Snapshot, width: int) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(width=9)
        table.add_column(width=width - 16 - 2 * len(f"{self._total:,}"))
        table.add_column(justify="right", no_wrap=True)
        for name, done, style in (("pushed", now.pushed, "cyan"), ("acked", now.acked, "green")):
            bar = ProgressBar(self._total, done, complete_style=style, finished_style=style)
            table.add_row(name, bar, f"{done:,} / {self._total:,}")
        return table


def _workers(now: Snapshot) -> Table:
    table = Table.grid(padding=(0, 3))
    for _ in range(5):
        table.add_column(no_wrap=True)
    done, held = (max(len(f"{getattr(row, name):,}") for row in now.workers)
                  for name in ("processed", "held"))  # fmt: skip
    for row in now.workers:
        state = f"[{_STATES.get(row.state, 'red')}]{row.state:<7}[/]"
        table.add_row(
            row.name, f"[dim]pid {row.pid}[/]", state, f"processed {row.processed:>{done},}",
            f"holds {row.held:>{held},}",
        )  # fmt: skip
    return table


def verdict(checks: Sequence[Check]) -> str:
    """Return the account in one sentence."""
    failed = [check.name for check in checks if not check.ok]
    if failed:
        return f"{len(failed)} of {len(checks)} checks FAILED: {', '.join(failed)}"
    return f"all {len(checks)} checks hold: nothing was lost"
