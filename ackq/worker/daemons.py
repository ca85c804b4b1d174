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

_Task = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class DaemonThreads:
    """Call functions in threads; start a thread only when all others are busy."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = 0
        self._running = 0

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in a thread, in a copy of this context; return what it returns."""
        return await self.begin(function, *args)

    def begin(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Begin a call. The future is no task, so a SystemExit in the function is like any error.

        A task would raise it out of the event loop.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._running += 1
        future.add_done_callback(self._ended)
        if self._running > self._threads:
            self._threads += 1
            threading.Thread(target=self._serve, daemon=True).start()
        self._tasks.put((partial(copy_context().run, function, *args), future))
        return future

    def _ended(self, future: asyncio.Future[Any]) -> None:
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
                future.get_loop().call_soon_threadsafe(_resolve, future, result, error)
            except RuntimeError:
                return  # the loop is closed: nothing waits for the result
            del task, function, future, result, error


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):
        error = RuntimeError("the handler raised StopIteration")  # a future cannot carry it
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
