"""Where an observer, such as `ackq.otel`, sees operations and handlers. There is none by default.

Clients pass their operations on messages through the observer, workers their handlers. Without an
observer, this costs one comparison for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from ackq.core.effects import Operation

T = TypeVar("T")
H = TypeVar("H", bound=Callable[..., Any])


class Observer(Protocol):
    """Sees what clients and workers do. Its methods return something to use instead."""

    def operation(
        self,
        operation: Callable[..., Operation[T]],
        address: str,
        args: tuple[Any, ...],
        settings: Mapping[str, Any],
        first: Operation[None] | None = None,
    ) -> Operation[T]:
        """Return the operation of a client on the server at ``address``, observed.

        ``first`` is done before it, as a part of it: it may fail to connect.
        """

    def sending(
        self, name: str, address: str, messages: Sequence[Any]
    ) -> AbstractContextManager[object]:
        """Return a block in which one call pushes ``messages`` to several shards of ``name``."""

    def handler(self, handler: H, addresses: Mapping[str, str]) -> H:
        """Return the handler, observed. ``addresses`` maps queues' names to servers."""


#: The observer of this process. Set it with `observe`.
observer: Observer | None = None
#: Members to add to the messages that this thread or task encodes.
_MEMBERS: ContextVar[Members | None] = ContextVar("ackq_members", default=None)
#: Whether the messages taken here wait in this process for a handler.
_PREFETCHES: ContextVar[bool] = ContextVar("ackq_prefetches", default=False)


def observe(by: Observer | None) -> None:
    """Set the observer of this process, or remove it. It sees operations that begin after that."""
    global observer
    observer = by


def sending(name: str, address: str, messages: Sequence[Any]) -> AbstractContextManager[object]:
    """Return a block in which one call pushes ``messages`` to several shards of ``name``."""
    return observer.sending(name, address, messages) if observer else nullcontext()


def handled(handler: H, addresses: Mapping[str, str]) -> H:
    """Return the handler to call: this one, or what the observer made of it."""
    return observer.handler(handler, addresses) if observer else handler


# --- what is sent -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Members:
    """Members that ackq adds to the JSON objects that it encodes: their names, and their JSON."""

    names: tuple[str, ...]
    json: bytes

    def added_to(self, body: bytes, message: Any, limit: int) -> bytes:
        """Return ``body`` with the members, or as it is if it has one of them or gets too long.

        Args:
            body: the JSON object that ``message`` was encoded as.
            message: a mapping or a dataclass.
            limit: in bytes. Nothing is refused because of the members.
        """
        has = message.__contains__ if isinstance(message, Mapping) else partial(hasattr, message)
        if any(map(has, self.names)):
            return body
        comma = b"," if len(body) > len(b"{}") else b""
        longer = b"%s%s%s}" % (body[:-1], comma, self.json)
        return longer if len(longer) <= limit else body


#: Return the members to add to the messages that are encoded now, or None. Not a function of its
#: own, because each push calls it.
members: Callable[[], Members | None] = _MEMBERS.get


@contextmanager
def adding(members: Members | None) -> Iterator[None]:
    """Add ``members`` to the messages that are encoded in this block."""
    token = _MEMBERS.set(members)
    try:
        yield
    finally:
        _MEMBERS.reset(token)


# --- what is taken ----------------------------------------------------------------------


def prefetches() -> bool:
    """Return whether messages taken now wait in this process for a handler."""
    return _PREFETCHES.get()


def prefetch() -> None:
    """Mark this thread or task, until it ends, as one that takes messages in advance."""
    _PREFETCHES.set(True)


@contextmanager
def prefetching() -> Iterator[None]:
    """Mark a block as one that takes messages in advance."""
    token = _PREFETCHES.set(True)
    try:
        yield
    finally:
        _PREFETCHES.reset(token)
