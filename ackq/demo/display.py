"""Show the demo: a live view in a terminal, one line per second elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ackq.demo.account import Check
from ackq.demo.children import Child
from ackq.demo.journal import counted, total
from ackq.queue.messages import QueueStats

#: Seconds between two lines without a terminal.
LINE_EVERY = 1.0
#: Most columns of the live view: wider lines are hard to follow.
WIDEST = 110
#: Events that the live view shows.
EVENTS_SHOWN = 6
_STATES = {"running": "green", "frozen": "cyan", "ended": "dim"}


class Display:
    """An output for the demo. In a terminal, it redraws one view, which stays at the end."""

    def __init__(self, console: Console | None = None) -> None:
        # rich honours NO_COLOR by itself.
        console = console or Console(file=sys.stdout, highlight=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        # Without a terminal rich would assume 80 columns, and wrap.
        self._console = (
            console
            if self._live
            else Console(
                file=console.file, width=10_000, highlight=False, emoji=False, color_system=None
            )
        )
        self._total = 1
        self._events: list[Text] = []
        self._view: list[RenderableType] = []
        self._next_line = 0.0

    def open(self, title: str, total: int, where: str) -> None:
        """Show what is about to run."""
        self._total = total
        self._print(f"[bold]ackq demo[/]  {escape(title)}: {counted(total, 'message')}")
        self._print(f"[dim]bare LPUSH onto the list {where}[/]\n")
        if self._live:
            self._live.start()

    def update(
        self, elapsed: float, stats: QueueStats, pushed: int, workers: Sequence[Child]
    ) -> None:
        """Show the progress."""
        tallies = [worker.tally for worker in workers]
        processed, acked, redelivered = (
            total(getattr(tally, name) for tally in tallies).total()
            for name in ("processed", "acked", "redelivered")
        )
        if not self._live and elapsed >= self._next_line:
            self._next_line = elapsed + LINE_EVERY
            self._print(
                f"{elapsed:5.1f} s  pushed {pushed:,}/{self._total:,}  ready {stats.ready:,}"
                f"  in flight {stats.in_flight:,}  processed {processed:,}"
                f"  redelivered {redelivered:,}"
            )
        counts = Text.from_markup(
            f"ready [bold]{stats.ready:,}[/]   in flight [bold]{stats.in_flight:,}[/]   "
            f"acked [bold]{acked:,}[/]   redelivered [bold]{redelivered:,}[/]   "
            f"stale acks refused [bold]{sum(tally.refused for tally in tallies):,}[/]"
        )
        self._view = [self._bars(pushed, acked), Text(), counts, Text(), _rows(workers)]
        self._draw()

    def tell(self, elapsed: float, text: str) -> None:
        """Show an event."""
        if not self._live:
            self._print(f"{elapsed:5.1f} s  * {escape(text)}")
        self._events.append(Text.from_markup(f"[dim]{elapsed:5.1f} s[/]  {escape(text)}"))
        self._draw()

    def account(self, checks: Sequence[Check]) -> None:
        """Show the account, and end."""
        self.close()
        table = Table.grid(padding=(0, 2))
        table.add_column()
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for check in checks:
            mark = "[green]ok[/]" if check.ok else "[bold red]FAIL[/]"
            table.add_row(mark, check.name, escape(check.detail))
        self._console.print()
        self._console.print(table)
        style = "green" if all(check.ok for check in checks) else "red"
        self._print(f"\n[bold {style}]{_verdict(checks)}[/]")

    def close(self) -> None:
        """Leave the terminal as it was. Idempotent."""
        if self._live:
            self._live.stop()

    def _print(self, markup: str) -> None:
        self._console.print(markup)
        self._console.file.flush()

    def _draw(self) -> None:
        if self._live and self._view:
            events = self._events[-EVENTS_SHOWN:]
            view = [*self._view, *([Text(), *events] if events else [])]
            self._live.update(Group(*view), refresh=True)

    def _bars(self, pushed: int, acked: int) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(width=9)
        table.add_column(width=min(self._console.width, WIDEST) - 16 - 2 * len(f"{self._total:,}"))
        table.add_column(justify="right", no_wrap=True)
        for name, done, style in (("pushed", pushed, "cyan"), ("acked", acked, "green")):
            bar = ProgressBar(self._total, done, complete_style=style, finished_style=style)
            table.add_row(name, bar, f"{done:,} / {self._total:,}")
        return table


def _rows(workers: Sequence[Child]) -> Table:
    table = Table.grid(padding=(0, 1))
    for column in ("name", "pid", "state", "processed", "number", "holds", "number"):
        table.add_column(no_wrap=True, justify="right" if column == "number" else "left")
    for worker in workers:
        table.add_row(
            worker.name,
            f"  [dim]pid {worker.pid}[/]",
            f"  [{_STATES.get(worker.state, 'red')}]{worker.state:<7}[/]",
            "  processed",
            f"{worker.tally.processed.total():,}",
            "  holds",
            f"{len(worker.tally.held):,}",
        )
    return table


def _verdict(checks: Sequence[Check]) -> str:
    if failed := [check.name for check in checks if not check.ok]:
        return f"{len(failed)} of {len(checks)} checks FAILED: {', '.join(failed)}"
    return f"all {len(checks)} checks hold: nothing was lost"
