"""What a worker's routines may ask of their runtime, and the tool they wait with.

A routine is a generator, so that it is written once for threads and for tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar


class Bell(Protocol):
    """Wakes the one routine that waits for it; a ring that nobody waits for is kept."""

    def ring(self) -> None:
        """End the present wait, or else the next one."""

    def wait(self, seconds: float) -> Any:
        """Wait for a ring, at most ``seconds``; awaited on asyncio."""


@dataclass(frozen=True, slots=True)
class Call:
    """Call a method of a queue. Answered with what it returns, or raises."""

    method: Callable[..., Any]
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a ring, at most ``seconds``. Answered with None."""

    bell: Bell
    seconds: float


T = TypeVar("T")
Routine = Generator[Call | Wait, Any, T]
