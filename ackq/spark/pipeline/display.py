"""Show the progress of `ackq pipeline run`: live in a terminal, otherwise as lines or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ackq.escaping import json_line, printable
from ackq.spark.pipeline.config import PipelineConfig, Sink
from ackq.spark.pipeline.progress import Progress

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

Show = Callable[[Progress], None]

#: Number of reasons that a terminal shows.
REASONS = 5
#: Seconds between two lines about a search for failing rows.
SEARCH_INTERVAL = 5.0
_STYLES = {"working": "green", "waiting": "cyan", "stopping": "yellow", "stopped": "bold"}


@contextmanager
def display(config: PipelineConfig, as_json: bool) -> Iterator[Show]:
    """Yield a function that shows the progress. Call it as often as you like."""
    if not as_json and sys.stdout.isatty():
        with _live(config) as show:
            yield show
        return
    yield _Lines(as_json)


class _Lines:
    """Writes a line for each batch, and when the run starts, is stopping or has stopped."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._shown: tuple[int, str | None] = (0, None)
        self._search_shown_at = float("-inf")

    def __call__(self, progress: Progress) -> None:
        state = progress.state if progress.state in ("starting", "stopping", "stopped") else ""
        batches, before = self._shown
        self._shown = (progress.batches, state)
        if progress.batches > batches:
            self._write(progress, progress.batch_line())
        elif state != before:
            self._write(progress, progress.line())
        elif progress.search and progress.elapsed - self._search_shown_at >= SEARCH_INTERVAL:
            self._search_shown_at = progress.elapsed
            self._write(progress, progress.search_line())

    def _write(self, progress: Progress, line: str) -> None:
        if self._as_json:
            line = json_line(progress.as_dict()).decode()
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


@contextmanager
def _live(config: PipelineConfig) -> Iterator[Show]:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        yield lambda progress: live.update(screen(config, progress, console.width), refresh=True)


def screen(config: PipelineConfig, progress: Progress, width: int) -> RenderableType:
    """Return what a terminal of ``width`` columns shows."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    source = f"{config.source.label} {', '.join(config.source.names)}"
    sinks = ", ".join(map(sink_name, config.sinks))
    head = Text.assemble(
        (progress.name, "bold"),
        f"  {source} → {sinks}  ",
        (progress.state, _STYLES.get(progress.state, "dim")),
        no_wrap=True,
        overflow="ellipsis",
    )
    numbers = Table(box=None, header_style="dim", pad_edge=False)
    cells = _cells(progress, width)
    for name in cells:
        numbers.add_column(name, justify="right", no_wrap=True)
    numbers.add_row(*cells.values())
    parts: list[RenderableType] = [head, numbers]
    if progress.reasons:
        parts += [Text(""), _reasons(progress, width)]
    if progress.search is not None:
        parts.append(Text(progress.search_line().partition(": ")[2], "yellow"))
    if progress.state in ("working", "waiting"):
        parts.append(Text("Press Ctrl-C to stop after the current batch", "dim"))
    return Group(*parts)


def _cells(progress: Progress, width: int) -> dict[str, Text]:
    from rich.text import Text

    batch = progress.batch
    lag = "-" if progress.lag is None else f"{progress.lag:,}"
    cells = {
        "read": f"{progress.rows:,}",
        "written": f"{progress.written:,}",
        "rejected": f"{progress.rejected:,}",
        "rows/s": f"{progress.rate:,.0f}",
        "lag": lag,
        "batch": "-" if batch is None else f"{batch.number}",
    }
    if width >= 120:
        cells |= {
            "batch rows": "-" if batch is None else f"{batch.rows:,}",
            "batch rejects": "-" if batch is None else f"{batch.rejected:,}",
            "batch time": "-" if batch is None else f"{batch.seconds:.1f} s",
            "running": _span(progress.elapsed),
        }
    texts = {name: Text(cell) for name, cell in cells.items()}
    if progress.rejected:
        texts["rejected"].stylize("red")
    return texts


def _reasons(progress: Progress, width: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, max_width=width - 14)
    for reason, count in progress.reasons.most_common(REASONS):
        table.add_row(Text(f"{count:,}", "red"), Text(printable(reason), overflow="ellipsis"))
    if (more := len(progress.reasons) - REASONS) > 0:
        table.add_row("", Text(f"and {more} more reasons", "dim"))
    return table


def sink_name(sink: Sink) -> str:
    """Return a short description of the sink."""
    if sink.target is not None:
        return " ".join(sink.target)
    return f"{sink.format} {sink.path}" if sink.path else sink.format


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
