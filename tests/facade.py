"""Let one test body drive the blocking and the asynchronous API."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from ackq.queue.schedules_client_async import AsyncSchedules


class Portal:
    """An event loop in a thread of its own, which other threads call into."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="portal", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._wait())

    async def _wait(self) -> None:
        await self._stopped.wait()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``function`` inside the loop, and await what it returns if that can be awaited."""

        async def run() -> Any:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        if threading.current_thread() is self._thread:
            raise RuntimeError("the portal was called from inside its own loop")
        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # the caller gave up, on Ctrl-C or a test's time limit
            raise

    def close(self) -> None:
        """Cancel what still runs, close the loop and end the thread."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def __enter__(self) -> Portal:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class AsSync:
    """Lets a test call an asynchronous object like a blocking one.

    Methods run in the portal's loop and return what they return when awaited;
    asynchronous iterators and context managers become plain ones; ``close`` is
    ``aclose``; any other attribute is the object's own.
    """

    def __init__(self, portal: Portal, wrapped: Any) -> None:
        self._portal = portal
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        if name == "close" and hasattr(self._wrapped, "aclose"):
            name = "aclose"
        value = getattr(self._wrapped, name)
        if isinstance(value, AsyncSchedules):
            return AsSync(self._portal, value)
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._shown(self._portal.call(value, *args, **kwargs))

        return call

    def _shown(self, result: Any) -> Any:
        if hasattr(result, "__anext__"):
            return _drain(self._portal, result)
        if hasattr(result, "__aenter__") or hasattr(result, "__aiter__"):
            return AsSync(self._portal, result)
        return result

    def __iter__(self) -> Iterator[Any]:
        return _drain(self._portal, self._portal.call(self._wrapped.__aiter__))

    def __enter__(self) -> Any:
        entered = self._portal.call(self._wrapped.__aenter__)
        return self if entered is self._wrapped else self._shown(entered)

    def __exit__(self, *exc_info: Any) -> Any:
        return self._portal.call(self._wrapped.__aexit__, *exc_info)

    def __repr__(self) -> str:
        return f"AsSync({self._wrapped!r})"


def _drain(portal: Portal, iterator: AsyncIterator[Any]) -> Iterator[Any]:
    """Yield each item as it comes; close the iterator when its reader stops early."""
    try:
        while True:
            try:
                item = portal.call(iterator.__anext__)
            except StopAsyncIteration:
                return
            yield item
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            portal.call(close)
