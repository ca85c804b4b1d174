"""How a task is called, in a worker's thread: coroutines in the event loop of the thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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
    return completed(definition.function(*args, **keywords))


def completed(result: Any) -> Any:
    """Return the plain value of what a task or a middleware returned; see `plain_value`."""
    return None if result is None else plain_value(result, finish)


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
