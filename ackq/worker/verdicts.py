"""What any handler did: it is done, has failed, or chose a verdict."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AsyncContextDecorator, ContextDecorator
from functools import partial
from subprocess import Popen
from threading import Thread
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from ackq.config import Seconds, in_seconds
from ackq.core.failure import as_text, true
from ackq.errors import ConfigurationError

#: How often what an awaitable returns is awaited in turn.
MAX_AWAITS = 10
_LAZY: Any = (map, filter, zip, enumerate, *filter(inspect.isclass, vars(itertools).values()))
#: What a handler must not return, because it has not run, or not to its end; and the advice.
_UNDONE: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (GeneratorType, "a generator, of which nothing has run: remove the yield, or loop over it"),
    (AsyncGeneratorType, "an async generator, of which nothing has run: loop over it"),
    (_LAZY, "a lazy iterator, of which nothing has run: loop over it"),
    (Future, "a future whose work may still run: return future.result() instead"),
    (Thread, "a thread that may still run: join() it before you return"),
    ((Popen, Process), "a process that may still run: wait() for it before you return"),
    (
        (ContextDecorator, AsyncContextDecorator),
        "a context manager that nobody entered: use it in a with statement, or as @decorator()",
    ),
)
_UNCALLED = "a function that nobody called: call it, or write @decorator() instead of @decorator"
#: Where the classes of results of pools and of processes are, which most programs never import.
_MULTIPROCESSING = frozenset({"multiprocessing.pool", "multiprocessing.context"})
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_CONTAINERS = frozenset({list, tuple, dict, set})
#: What a container must not hold: work that nobody waits for.
_WORK = (CoroutineType, asyncio.Future, Future, Thread, Popen, Process, GeneratorType)


class Verdict(Exception):
    """The base class. Raise a verdict or return it.

    Returning anything else means done, any other exception means failed.
    """


class Again(Verdict):
    """Redeliver the message later. The receive counts, so ``max_receives`` applies.

    Args:
        delay: seconds until it is ready again, 0 or more. Defaults to the worker's backoff.
    """

    delay: float | None = None

    def __init__(self, delay: Seconds | None = None) -> None:
        super().__init__(delay)
        self.delay = None if delay is None else checked_delay(delay, type(self).__name__)


class Reject(Verdict):
    """Move the message to the dead letters now.

    Args:
        reason: stored with the dead letter, as text.
    """

    reason: str = "rejected"

    def __init__(self, reason: object = "rejected") -> None:
        self.reason = as_text(reason)
        super().__init__(self.reason)


class Release(Verdict):
    """Return the message as if it had not been taken. The receive does not count.

    Args:
        delay: seconds until it is ready again. Defaults to 0, at once.
        group: whether the other messages of its group wait for as long, see `Queue.pause_group`.
            Those that a worker has taken go on. A message without a group waits alone; if its
            queue has no groups, the worker logs that. Defaults to False.
    """

    delay: float = 0.0
    group: bool = False

    def __init__(self, delay: Seconds = 0.0, *, group: bool = False) -> None:
        super().__init__(delay)
        self.delay = checked_delay(delay, type(self).__name__)
        if not isinstance(group, bool):
            raise ConfigurationError(
                f"{type(self).__name__}(group) is True or False, not {as_text(group, repr)}: the"
                " group that waits is that of the message"
            )
        self.group = group


def checked_delay(delay: Any, name: str) -> float:
    """Return a delay as seconds.

    Raises:
        ConfigurationError: it is no number of seconds, or negative.
    """
    seconds = in_seconds(delay)
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not seconds >= 0:
        advice = ": convert text, such as a Retry-After header, with float(…)"
        raise ConfigurationError(
            f"{name}(delay) is 0 or more seconds, not {as_text(delay, repr)}"
            f"{advice if isinstance(delay, str | bytes) else ''}"
        )
    return seconds


def pending(result: Any) -> Awaitable[Any] | None:
    """Return what still has to be awaited of a handler's result. None: the handler is done.

    Raises:
        BaseException: the handler returned this exception; returning one is like raising it.
        TypeError: the work behind the result has not run. The text says what to write instead.
    """
    if type(result) in _PLAIN:
        return None
    if type(result) in _CONTAINERS:
        _check_members(result)
        return None
    if isinstance(result, BaseException) or (
        isinstance(result, type) and issubclass(result, BaseException)
    ):
        raise result
    if inspect.isawaitable(result):
        return result
    undone = (advice for kinds, advice in _UNDONE if isinstance(result, kinds))
    if advice := next(undone, _UNCALLED if _is_function(result) else ""):
        raise TypeError(f"the handler returned {advice}")
    if type(result).__module__ in _MULTIPROCESSING:
        raise TypeError(
            "the handler returned work of multiprocessing that may still run: get() its result, or"
            " join() the process, before you return"
        )
    return None


def _check_members(container: Any) -> None:
    """Raise a TypeError if a container holds work that may still run, or has not begun."""
    members = container.values() if type(container) is dict else container
    for each in members:
        if issubclass(type(each), _WORK) and not (hasattr(each, "done") and each.done()):
            for one in members:
                if type(one) is CoroutineType:
                    one.close()  # so that Python does not warn as well
            raise TypeError(
                f"the handler returned a {type(container).__name__} of work that may still run, or"
                f" has not begun, such as a {type(each).__name__}: wait for the result of each, as"
                " await asyncio.gather(*coroutines) does"
            )


def _is_function(result: Any) -> bool:
    """Return whether this is a function: written in any language, bound, wrapped, or a task."""
    wrapped = callable(result) and hasattr(result, "__wrapped__")
    return wrapped or inspect.isroutine(result) or isinstance(result, partial)


def plain_value(result: Any, finish: Callable[[Awaitable[Any]], Any]) -> Any:
    """Return the plain value of a handler's result, or raise what `pending` raises.

    Args:
        result: as the handler returned it.
        finish: awaits.
    """
    for _ in range(MAX_AWAITS):
        if (awaitable := pending(result)) is None:
            return result
        result = finish(awaitable)
        if result is awaitable:
            return result  # such as a client, which awaiting only connects
    raise TypeError(f"the handler returned something that is to be awaited over {MAX_AWAITS} times")


async def plain_value_async(result: Any) -> Any:
    """Return the plain value of a handler's result; see `plain_value`."""
    for _ in range(MAX_AWAITS):
        if (awaitable := pending(result)) is None:
            return result
        result = await awaitable
        if result is awaitable:
            return result
    raise TypeError(f"the handler returned something that is to be awaited over {MAX_AWAITS} times")


def check_handler(function: Any, name: str) -> None:
    """Check that calling a function runs it.

    Raises:
        ConfigurationError: it does not, or it cannot be called.
    """
    called = function
    while isinstance(called, partial):
        called = called.func
    if not callable(called):
        raise ConfigurationError(f"{name} must be callable, not {called!r}")
    if isinstance(called, type):
        raise ConfigurationError(
            f"{name} is the class {called.__name__}, and calling it only makes an object: pass an"
            f" object, as in {called.__name__}(), or a function"
        )
    for each in (called, getattr(called, "__call__", None)):  # noqa: B004 - an object's call
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise ConfigurationError(
                f"{name} has a yield, so calling it runs nothing: remove the yield, or loop over"
                " the generator in a function"
            )


def check_blocking(function: Any, name: str) -> None:
    """Check that calling a function runs it to its end, here and now.

    Raises:
        ConfigurationError: it does not, or it cannot be called.
    """
    check_handler(function, name)
    if any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None)))):  # noqa: B004
        raise ConfigurationError(f"{name} is asynchronous, and nobody awaits it: write a plain def")


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Return the errors in a group and in the groups within it, in order; or the error itself."""
    left = [error]
    while left:
        each = left.pop()
        # Not the user's attributes: a class of errors may override them.
        if issubclass(type(each), BaseExceptionGroup):
            left += reversed(BaseExceptionGroup.exceptions.__get__(each))
        else:
            yield each


def cause_of(verdict: BaseException) -> BaseException | None:
    """Return the error that a verdict was raised for, if there was one."""
    cause: BaseException | None = true(verdict, "__cause__")
    if cause is None and not true(verdict, "__suppress_context__"):
        cause = true(verdict, "__context__")
    return cause


def verdict_in(error: BaseException | None) -> Verdict | None:
    """Return the verdict that an error is, or the first one in a group of errors."""
    leaves: Iterable[Any] = () if error is None else leaves_of(error)
    return next((each for each in leaves if issubclass(type(each), Verdict)), None)
