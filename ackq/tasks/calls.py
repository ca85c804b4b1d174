"""How a task is called, in a worker's thread: coroutines in the event loop of the thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from ackq.errors import ConfigurationError
from ackq.queue.messages import Message
from ackq.tasks.definition import Definition
from ackq.worker.threads import finish
from ackq.worker.verdicts import check_handler, plain_value

F = TypeVar("F", bound=Callable[..., Any])


def call(
    definition: Definition, message: Message, args: Iterable[Any], keywords: Mapping[str, Any]
) -> Any:
    """Call the function of a task, and await its result."""
    result = definition.function(*args, **keywords)
    return None if result is None else plain_value(result, finish)


def call_through(middleware: Iterable[Any], message: Any, call: Callable[[], Any]) -> Any:
    """Call something within middleware, the first of which is the outermost.

    What each returns is judged like the result of a handler. None stands for what was called.

    Raises:
        TypeError: a middleware called nothing and returned None, or returned before the end of
            what it called.
    """
    begun: list[Any] = []
    ended: list[Any] = []

    def innermost() -> Any:
        begun.append(call)
        result = None
        try:
            result = call()
        finally:
            ended.append(result)
        return result

    def layer(each: Any, inner: Callable[[], Any]) -> Any:
        return plain_value(each(message, inner), finish)

    outermost: Callable[[], Any] = innermost
    for each in reversed([*middleware]):
        outermost = partial(layer, each, outermost)
    result = outermost()
    if len(ended) < len(begun):
        raise TypeError("a middleware has not waited for the end of call(): return call()")
    return checked(result, ended, "return call()")


def checked(result: Any, results: Sequence[Any], advice: str) -> Any:
    """Return what middleware returned, or what was called returned if that is None.

    Raises:
        TypeError: nothing was called.
    """
    if result is None and not results:
        raise TypeError(
            f"a middleware has not called call(), so nothing has run: {advice}, or return anything"
            " but None to leave it out"
        )
    return results[-1] if result is None else result


@contextmanager
def entered(lifespan: Callable[[], Any]) -> Iterator[Any]:
    """Enter what a lifespan returns, a context manager.

    Raises:
        ConfigurationError: it returns something else.
    """
    block = lifespan()
    if not hasattr(block, "__enter__"):
        raise ConfigurationError(
            "lifespan is a function that returns a context manager: decorate it with"
            " contextlib.contextmanager. For an asynchronous one, use AsyncTasks"
        )
    with block as state:
        yield state


def is_middleware(function: F) -> F:
    """Return the function if it can be middleware.

    Raises:
        ConfigurationError: it is asynchronous, which each message would pay for, or a generator.
    """
    check_handler(function, "middleware")
    if inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            "middleware of Tasks is an ordinary function: def m(message, call): return call()."
            " For an asynchronous one, use AsyncTasks"
        )
    return function
