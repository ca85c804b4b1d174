"""A bar on stderr for what takes long, and a word on how far it came when it fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import click

#: ``on_step(count, done)``: so many have gone through, and ``done`` of the total (else the count).
OnStep = Callable[..., None]


@contextmanager
def progress(verb: str, total: int | None, advice: str) -> Iterator[OnStep]:
    """Yield what is to be told how far it is; show it as a bar if stderr is a terminal.

    Args:
        verb: what is counted, such as "moved".
        total: of what is done in the end; None: not known.
        advice: printed if the block fails on its way, with the count for ``{count}``.
    """
    reached = 0
    try:
        with _bar(verb, total) if sys.stderr.isatty() else nullcontext() as show:

            def on_step(count: int, done: int | None = None) -> None:
                nonlocal reached
                reached = count
                if show:
                    show(count, count if done is None else done)

            yield on_step
    except BaseException:
        if reached:
            click.echo(f"ackq: {reached:,} {verb}; {advice.format(count=reached)}", err=True)
        raise


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
