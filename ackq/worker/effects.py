"""The effects that a worker's routines yield to their runtime, and the bell they wait for.

A routine is a generator, so that the same code serves threads and tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar


class Bell(Protocol):
    """Wakes the one routine that waits for it. A ring without a waiter is kept."""

    def ring(self) -> None:
        """End the current wait, or else the next one."""

    def wait(self, seconds: float) -> Any:
        """Wait for a ring, at most ``seconds``; awaited on asyncio."""


@dataclass(frozen=True, slots=True)
class Call:
    """Call a method of a queue. The routine receives its result or its exception."""

    method: Callable[..., Any]
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a ring, at most ``seconds``. The routine receives None."""

    bell: Bell
    seconds: float


T = TypeVar("T")
Routine = Generator[Call | Wait, Any, T]
