"""Coroutines in virtual time: the world answers the effects of the operations that they await."""

from collections.abc import Generator
from typing import Any

from ackq.core.effects import Effect, Operation, Sleep


class Steps:
    """An operation that a coroutine awaits."""

    def __init__(self, steps: Operation[Any]) -> None:
        self._steps = steps

    def __await__(self) -> Operation[Any]:
        return self._steps


class Driver:
    """Takes the place of the driver of a client, which would answer effects over a connection."""

    def __init__(self, route: Any) -> None:
        self.route = route

    async def run(self, steps: Operation[Any]) -> Any:
        return await Steps(steps)


async def sleep(seconds: float) -> None:
    """Let virtual time pass."""
    await Steps(_sleep(seconds))


def _sleep(seconds: float) -> Generator[Effect, Any, None]:
    yield Sleep(seconds)
