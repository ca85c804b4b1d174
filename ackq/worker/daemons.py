"""Threads for synchronous functions under asyncio. Unlike an executor's, they do not delay exit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any

from ackq.worker.forks import end_if_forked

#: What a function returned and what it raised.
Outcome = tuple[Any, BaseException | None]
_Task = tuple[Callable[[], Any], "asyncio.Future[Outcome]"]


class DaemonThreads:
    """Call functions in threads; start a thread only when all others are busy."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = 0
        self._running = 0

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in a thread, in a copy of this context; return what it returns."""
        return value_of(await self.begin(function, *args))

    def begin(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Outcome]:
        """Begin a call. Errors travel as plain values; pass the result of the future to `value_of`.

        A task would raise a SystemExit out of the event loop, and a future would look at the error,
        whose class may fail when it is looked at.
        """
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._running += 1
        future.add_done_callback(self._ended)
        if self._running > self._threads:
            self._threads += 1
            threading.Thread(target=self._serve, daemon=True).start()
        self._tasks.put((partial(copy_context().run, function, *args), future))
        return future

    def _ended(self, future: asyncio.Future[Outcome]) -> None:
        self._running -= 1

    def close(self) -> None:
        """Let threads end once they are idle."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, future = task
            result, error = None, None
            try:
                result = function()
            except BaseException as raised:
                error = raised
            end_if_forked(error)
            try:
                future.get_loop().call_soon_threadsafe(_resolve, future, (result, error))
            except RuntimeError:
                return  # the loop is closed: nothing waits for the result
            del task, function, future, result, error


def value_of(outcome: Outcome) -> Any:
    """Return what a function returned, or raise what it raised."""
    result, error = outcome
    if error is None:
        return result
    if issubclass(type(error), StopIteration):
        raise RuntimeError("the handler raised StopIteration")  # a coroutine cannot raise it
    raise error


def _resolve(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
