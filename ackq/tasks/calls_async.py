"""How a task is called, on asyncio: functions in threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from ackq.errors import ConfigurationError
from ackq.queue.messages import Message
from ackq.tasks.calls import checked
from ackq.tasks.definition import Definition
from ackq.worker.tasks import DaemonThreads, must_leave, value_of
from ackq.worker.verdicts import check_handler, plain_value_async

F = TypeVar("F", bound=Callable[..., Any])
#: Threads of all event loops of this process. Idle ones are used again.
_THREADS = DaemonThreads()


async def call(
    definition: Definition, message: Message, args: Iterable[Any], keywords: Mapping[str, Any]
) -> Any:
    """Call the function of a task, in a thread unless it is asynchronous, and await its result."""
    if definition.is_async:
        result = await definition.function(*args, **keywords)
    else:
        result = await _in_thread(partial(definition.function, *args, **keywords))
    return None if result is None else await plain_value_async(result)


async def call_through(middleware: Iterable[Any], message: Any, call: Callable[[], Any]) -> Any:
    """Call something within middleware, the first of which is the outermost.

    What each returns is judged like the result of a handler. None stands for what was called.

    Raises:
        TypeError: a middleware did not await its ``call()``, so that has not run to its end; or it
            called nothing and returned None.
    """
    begun: list[Any] = []
    results: list[Any] = []

    def noted(call: Callable[[], Any]) -> Any:
        begun.append(call())
        return begun[-1]

    async def innermost() -> Any:
        results.append(None)
        results.append(await call())
        return results[-1]

    async def layer(each: Any, inner: Callable[[], Any]) -> Any:
        return await plain_value_async(await each(message, partial(noted, inner)))

    outermost: Callable[[], Any] = innermost
    for each in reversed([*middleware]):
        outermost = partial(layer, each, outermost)
    result = await outermost()
    unfinished = [one for one in begun if inspect.iscoroutine(one) and one.cr_frame is not None]
    for one in unfinished:
        if inspect.getcoroutinestate(one) == inspect.CORO_CREATED:
            one.close()  # so that Python does not warn as well
    if unfinished:
        raise TypeError("a middleware has not awaited call(): return await call()")
    return checked(result, results, "return await call()")


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Call a function in a thread.

    A thread cannot be stopped: after the time limit, the loss of the lease or the ``wait_for`` of
    a middleware, this waits for its end.
    """
    running = _THREADS.begin(function)
    while True:
        try:
            return value_of(await asyncio.shield(running))
        except asyncio.CancelledError:
            if must_leave() or running.done():
                raise


@asynccontextmanager
async def entered(lifespan: Callable[[], Any]) -> AsyncIterator[Any]:
    """Enter what a lifespan returns, an asynchronous or a synchronous context manager.

    Raises:
        ConfigurationError: it returns something else.
    """
    block = lifespan()
    if isinstance(block, AbstractAsyncContextManager):
        async with block as state:
            yield state
    elif hasattr(block, "__enter__"):
        with block as state:
            yield state
    else:
        raise ConfigurationError(
            "lifespan is a function that returns a context manager: decorate it with"
            " contextlib.asynccontextmanager"
        )


def is_middleware(function: F) -> F:
    """Return the function if it can be middleware.

    Raises:
        ConfigurationError: it is not asynchronous, so its end would not be that of the call.
    """
    check_handler(function, "middleware")
    if not inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            "middleware of AsyncTasks is asynchronous: async def m(message, call):"
            " return await call()"
        )
    return function
