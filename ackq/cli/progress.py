"""Show a progress bar on stderr, and report how far an operation came if it fails."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

import click

#: ``on_step(count, done)``: report the count so far, and the part ``done`` of the total (defaults
#: to the count).
OnStep = Callable[..., None]


@contextmanager
def progress(verb: str, total: int | None, advice: str, reached: int = 0) -> Iterator[OnStep]:
    """Yield a callback for progress; show a bar if stderr is a terminal.

    If the block fails, or Ctrl-C or SIGTERM ends it, the count so far is printed.

    Args:
        verb: what is counted, such as "moved".
        total: the expected total; None if unknown.
        advice: how to go on after an error; ``{count}`` is replaced by the count.
        reached: the count before the first step. Defaults to 0.
    """
    try:
        with (
            _interrupted_by_sigterm(),
            _bar(verb, total) if sys.stderr.isatty() else nullcontext() as show,
        ):

            def on_step(count: int, done: int | None = None) -> None:
                nonlocal reached
                reached = count
                if show:
                    show(count, count if done is None else done)

            yield on_step
    except BaseException:
        how = f"; {advice.format(count=reached)}" if reached else ""
        click.echo(f"ackq: {reached:,} {verb}{how}", err=True)
        raise


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C while the block runs."""

    def interrupt(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _bar(verb: str, total: int | None) -> Iterator[OnStep]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    counted = TextColumn("{task.fields[count]:,} " + verb)
    with Progress(
        BarColumn(), counted, TimeRemainingColumn(), console=Console(stderr=True, highlight=False)
    ) as bar:
        task = bar.add_task(verb, total=total, count=0)
        yield lambda count, done: bar.update(task, completed=done, count=count)
