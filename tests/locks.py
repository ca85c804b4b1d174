"""A lock that is taken, to see that a call waits for it."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest


class Taken(Exception):
    """The call waits."""


class Lock:
    """A lock that somebody else takes after ``uses`` uses."""

    def __init__(self, uses: int = 0) -> None:
        self._uses = uses

    def __enter__(self) -> None:
        self._uses -= 1
        if self._uses < 0:
            raise Taken

    def __exit__(self, *error: object) -> None: ...

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, *error: object) -> None: ...


def assert_waits(made: Any, call: Callable[[Any], Any], uses: int = 0) -> None:
    """Fail unless the call waits for the object's lock after ``uses`` uses."""
    made._lock = Lock(uses)

    async def run() -> None:
        result = call(made)
        if inspect.isawaitable(result):
            await result

    with pytest.raises(Taken):
        asyncio.run(run())
