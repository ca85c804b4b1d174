"""Asyncio connections that a test leaves open.

redis-py warns about one when it is garbage-collected, which fails some later test.
"""

import asyncio
import weakref
from typing import Any

from redis.asyncio.connection import AbstractConnection

_made: list[weakref.ref[AbstractConnection]] = []


def watch() -> None:
    """Note every asyncio connection that is made from now on."""
    create: Any = AbstractConnection.__init__

    def make(self: AbstractConnection, *args: Any, **kwargs: Any) -> None:
        create(self, *args, **kwargs)
        _made.append(weakref.ref(self))

    AbstractConnection.__init__ = make  # type: ignore[method-assign]


def left_open() -> list[AbstractConnection]:
    """Return the connections made since the last call that are still open."""
    made = [_made.pop()() for _ in range(len(_made))]
    return [each for each in made if each is not None and is_open(each)]


def is_open(connection: AbstractConnection) -> bool:
    """Return whether a connection has a socket, which those of fakeredis never have."""
    return isinstance(connection._writer, asyncio.StreamWriter)
