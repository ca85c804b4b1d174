"""The live view: read the queues, show them, and obey the keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import redis

from ackq.cli.keyboard import Pressed, keys
from ackq.cli.top import detail, table
from ackq.cli.top.screen import Screen
from ackq.core.io.lender import Lender
from ackq.errors import redact
from ackq.ops.samples import Row, Sample, Sampler, Sort, arranged, interval_for

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ackq.ops.attention.watch import Attention
    from ackq.ops.overview import Overview

#: Seconds after which a changed size of the terminal is noticed.
RESIZED = 0.5


def watch(
    overview: Overview, attention: Attention, client: redis.Redis, every: float, sort: Sort
) -> None:
    """Show the queues until the user ends it.

    Raises:
        redis.ConnectionError, KeyTypeError: the first reading failed.
    """
    from rich.console import Console

    console = Console(highlight=False)
    try:
        with (
            _screen(console) as show,
            keys() as pressed,
            closing(Lender(client)) as lender,
        ):
            _Live(overview, attention, lender, console, Screen(sort)).run(every, show, pressed)
    except KeyboardInterrupt:
        return


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Yield a function that shows something in place of the last, or below it if it must."""
    from rich.live import Live

    if _scrolls(console):
        yield console.print
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda shown: live.update(shown, refresh=True)


def _scrolls(console: Console) -> bool:
    return console.is_dumb_terminal or not console.is_terminal


class _Live:
    """What is on the screen."""

    def __init__(
        self,
        overview: Overview,
        attention: Attention,
        client: redis.Redis,
        console: Console,
        screen: Screen,
    ) -> None:
        self._sampler = Sampler(overview, attention)
        self._console = console
        self._screen = screen
        self._details = detail.Details(client)
        self._sample: Sample | None = None

    def run(self, every: float, show: Callable[[RenderableType], None], pressed: Pressed) -> None:
        """Show a sample, and the next one when it is time or a key was pressed."""
        while True:
            sample = self._read()
            due = time.monotonic() + interval_for(len(sample.rows), every)
            show(self._render(sample))
            size = self._console.size
            while (left := due - time.monotonic()) > 0:
                keys = pressed(min(left, RESIZED))
                if {"q", "Q"} & {*keys}:
                    return
                for key in keys:
                    self._press(key, sample)
                if not _scrolls(self._console) and (keys or size != self._console.size):
                    size = self._console.size
                    show(self._render(sample))

    def _read(self) -> Sample:
        sample = self._sampler.take()
        if self._sample is None:
            sample.snapshot.check()
        down = [server.problem for server in sample.snapshot.servers if server.problem]
        trouble = redact(str(down[0])) or type(down[0]).__name__ if down else ""
        shown = sample if sample.snapshot.up or self._sample is None else self._sample
        self._sample = replace(shown, trouble=trouble)
        return self._sample

    def _press(self, key: str, sample: Sample) -> None:
        rows = arranged(sample.rows, self._screen.sort, self._screen.reverse)
        room = (
            self._console.size.height - detail.FRAME if self._screen.opened else self._room(sample)
        )
        self._screen = self._screen.press(key, rows, max(1, room))

    def _render(self, sample: Sample) -> RenderableType:
        rows = arranged(sample.rows, self._screen.sort, self._screen.reverse)
        if self._screen.opened and any(row.key == self._screen.selected for row in rows):
            return self._opened(rows[self._screen.at(rows)], sample)
        width = self._console.size.width
        room = max(1, self._room(sample))
        at = self._screen.at(rows)
        self._screen = replace(self._screen, opened=False).fitted(len(rows), room, at)
        return table.table(sample, rows, self._screen, width, room)

    def _room(self, sample: Sample) -> int:
        width, height = self._console.size
        return height - table.FRAME - len(table.trouble_lines(sample, width))

    def _opened(self, row: Row, sample: Sample) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        trouble = sample.trouble
        details = detail.Detail()
        try:
            details = self._details.of(row)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            trouble = redact(str(error)) or type(error).__name__
        width, height = self._console.size
        room = max(1, height - detail.FRAME)
        lines = detail.wrapped(row, details, width)
        self._screen = self._screen.fitted(len(lines), room)
        shown = lines[self._screen.first : self._screen.first + room]
        blank = [Text("")] * (room - len(shown))
        return Group(*shown, *blank, table.caption(trouble, detail.KEYS, width))
