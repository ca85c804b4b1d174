"""A lock that is taken, to see that a call waits for it."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest


class Taken(Exception):
    """The call waits."""


class Lock:
    """A lock that somebody else has."""

    def __enter__(self) -> None:
        raise Taken

    def __exit__(self, *error: object) -> None: ...

    async def __aenter__(self) -> None:
        raise Taken

    async def __aexit__(self, *error: object) -> None: ...


def assert_waits(made: Any, call: Callable[[Any], Any]) -> None:
    """Fail unless the call waits for the object's lock."""
    made._lock = Lock()

    async def run() -> None:
        result = call(made)
        if inspect.isawaitable(result):
            await result

    with pytest.raises(Taken):
        asyncio.run(run())
