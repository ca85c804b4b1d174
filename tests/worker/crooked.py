"""What handlers of users return, raise and are: the tables of the tests of all handlers."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from itertools import product
from multiprocessing import Process
from typing import Any
from unittest.mock import Mock

from ackq import Message
from ackq.core.fencing import Leased
from ackq.worker import Reject, Release

RAN: set[str] = set()
BOUND: ContextVar[str] = ContextVar("bound", default="")


async def later(name: str) -> str:
    await asyncio.sleep(0)
    RAN.add(name)
    return name


@contextmanager
def bound(word: str) -> Iterator[None]:
    """As structlog's ``bound_contextvars``."""
    token = BOUND.set(word)
    try:
        yield
    finally:
        BOUND.reset(token)


def wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


class Awaited:
    """Can be awaited, and is no coroutine."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __await__(self) -> Any:
        return later(self.name).__await__()


class Client(Awaited):
    """As redis-py's asyncio client: awaiting it connects, and gives the client."""

    def __await__(self) -> Any:
        yield from super().__await__()
        return self


class Handler:
    """A callable object whose call is asynchronous."""

    async def __call__(self, name: str) -> str:
        return await later(name)


async def nested(name: str) -> Awaitable[str]:
    return later(name)


async def endless(name: str) -> Any:
    return Endless()


class Endless:
    """Awaiting it gives another one."""

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return Endless()


def generates(name: str) -> Iterator[int]:
    RAN.add(name)
    yield 1


async def generates_async(name: str) -> Any:
    RAN.add(name)
    yield 1


def plain(result: Any) -> Callable[[str], Any]:
    def handle(name: str) -> Any:
        RAN.add(name)
        return result

    return handle


def returns(make: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda name: make(name)


def ended() -> Future[int]:
    future: Future[int] = Future()
    future.set_result(1)
    return future


PLAIN: tuple[Any, ...] = (None, 0, "", b"x", [], {}, ..., int, Handler(), Mock(), iter([]))
#: What handlers return, and how their messages end: empty for an ack, after the handler has run;
#: or the reason or the text of the error, of which nothing may have run.
RESULTS: dict[str, tuple[Callable[[str], Any], str]] = {
    **{f"plain-{n}": (plain(v), "") for n, v in enumerate(PLAIN)},
    "coroutine": (later, ""),
    "wrapped": (wrapper(later), ""),
    "decorated": (bound("x")(later), ""),
    "twice": (wrapper(bound("x")(wrapper(later))), ""),
    "partial": (functools.partial(wrapper(later)), ""),
    "object": (Handler(), ""),
    "awaitable": (Awaited, ""),
    "client": (Client, ""),
    "nested": (nested, ""),
    "lambda": (lambda name: later(name), ""),
    "endless": (endless, "over 10 times"),
    "generator": (generates, "remove the yield"),
    "async generator": (generates_async, "loop over it"),
    "map": (lambda name: map(RAN.add, [name]), "loop over it"),
    "filter": (lambda name: filter(RAN.add, [name]), "loop over it"),
    "starmap": (lambda name: itertools.starmap(RAN.add, [(name,)]), "loop over it"),
    "chain": (lambda name: itertools.chain(map(RAN.add, [name])), "loop over it"),
    "zip": (lambda name: zip(map(RAN.add, [name]), [1], strict=True), "loop over it"),
    "process": (lambda name: Process(), "join() the process"),
    "async process": (lambda name: object.__new__(asyncio.subprocess.Process), "wait() for it"),
    "future": (lambda name: Future(), "return future.result()"),
    "coroutines": (lambda name: [later(name)], "asyncio.gather"),
    "futures": (lambda name: {"a": 1, "b": Future()}, "a dict of work"),
    "done": (lambda name: [plain(0)(name), ended()], ""),
    "thread": (lambda name: threading.Thread(), "join()"),
    "context manager": (lambda name: bound(name), "in a with statement"),
    "function": (lambda name: later, "@decorator()"),
    "method": (lambda name: Handler().__call__, "@decorator()"),
    "built in": (lambda name: [].append, "@decorator()"),
    "unbound": (lambda name: str.upper, "@decorator()"),
    "cached": (lambda name: functools.cache(later), "@decorator()"),
    "task": (lambda name: functools.update_wrapper(Handler(), later), "@decorator()"),
    "half a decorator": (lambda name: wrapper(later), "@decorator()"),
    "bound": (lambda name: functools.partial(later, name), "@decorator()"),
    "verdict": (lambda name: Reject("a verdict"), "a verdict"),
    "class": (lambda name: Reject, "rejected"),
    "error": (lambda name: ValueError("an error"), "an error"),
    "async verdict": (lambda name: asyncio.sleep(0, Reject("awaited")), "awaited"),
}


def raising(error: type[BaseException]) -> Callable[..., Any]:
    def method(*args: Any) -> Any:
        raise error

    return method


def returning(value: Any) -> Callable[..., Any]:
    return lambda *args: value


def _delete(name: str, message: Message) -> None:
    with suppress(Exception):
        delattr(message, name)


def _overwrite(name: str, value: Any, message: Message) -> None:
    with suppress(Exception):
        setattr(message, name, value)


class Text(str):
    """Text that fails as soon as somebody works on it."""

    __getitem__ = encode = __format__ = partition = raising(RuntimeError)


#: Fails whatever it is asked.
EVIL = type(
    "Evil",
    (),
    {
        name: raising(RuntimeError)
        for name in (
            *("__bool__", "__eq__", "__hash__", "__lt__", "__len__", "__iter__", "__int__"),
            *("__str__", "__repr__", "__getattr__", "__float__", "__bytes__", "__contains__"),
        )
    },
)()
_NAMES = sorted({name for kind in (Leased, Message) for name in kind.__slots__} | {"trace_id"})
#: What a handler may do to its message, by a name: delete an attribute, or overwrite it.
MEDDLERS: dict[str, Callable[[Message], None]] = {
    **{f"{name} deleted": partial(_delete, name) for name in _NAMES},
    **{
        f"{name} {kind}": partial(_overwrite, name, value)
        for name in _NAMES
        for kind, value in (("list", []), ("number", 5.5), ("text", Text("x")), ("evil", EVIL))
    },
}


#: Attributes that a class of exceptions can define, and what they may do.
ATTRIBUTES = (
    *("__str__", "__repr__", "__eq__", "__hash__", "__getattribute__", "__reduce__", "__bool__"),
    *("__cause__", "__context__", "__suppress_context__", "__traceback__", "__class__"),
    *("__notes__", "__dict__", "args", "exceptions", "errors", "delay", "reason"),
)
METHODS = frozenset(ATTRIBUTES[:7])
BEHAVIOURS = (
    *map(raising, (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, RecursionError)),
    *map(returning, (None, 5000, Text("x"), asyncio.CancelledError())),
)
KINDS: dict[str, Callable[[type], BaseException]] = {
    "Exception": lambda kind: kind("why"),
    "Reject": lambda kind: kind("why"),
    "Release": lambda kind: kind(60),
    "ExceptionGroup": lambda kind: kind("why", [ValueError(), Release(60)]),
    "SystemExit": lambda kind: kind(3),
}
BASES: dict[str, type[BaseException]] = {
    "Exception": Exception,
    "Reject": Reject,
    "Release": Release,
    "ExceptionGroup": ExceptionGroup,
    "SystemExit": SystemExit,
}


def hostile() -> dict[str, BaseException]:
    """Return an error for each kind, each attribute and each behaviour, and what ends loops."""
    ends = KeyboardInterrupt(), GeneratorExit(), StopIteration(), asyncio.CancelledError()
    made: dict[str, BaseException] = {type(error).__name__: error for error in ends}
    for kind, name, (number, behaviour) in product(BASES, ATTRIBUTES, enumerate(BEHAVIOURS)):
        member: Any = behaviour if name in METHODS else property(behaviour, lambda *_: None)
        type_ = type("Hostile", (BASES[kind],), {name: member})
        try:
            made[f"{kind}-{name}-{number}"] = KINDS[kind](type_)
        except BaseException:  # it cannot even be made, so no handler raises it
            continue
    return made
