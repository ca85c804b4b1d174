"""A case: a script, a description of a bad state, and a function that creates that state."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.worst.scene import Scene

#: The operation to measure once a server is in a bad state. Its result is ignored.
Act = Callable[[], object]
Prepare = Callable[[Scene], Act]


class Case(NamedTuple):
    """One bad state of one script's keys, or of its arguments."""

    script: str
    shape: str
    prepare: Prepare

    def __str__(self) -> str:
        return f"{self.script}: {self.shape}"


#: All cases, in the order of their tables.
CASES: list[Case] = []


def worst(script: str, shape: str) -> Callable[[Prepare], Prepare]:
    """Register a function that prepares a `Scene` and returns the operation to measure."""

    def register(prepare: Prepare) -> Prepare:
        CASES.append(Case(script, shape, prepare))
        return prepare

    return register


def times(calls: int, act: Act) -> Act:
    """Return a function that calls ``act`` this many times."""

    def repeated() -> None:
        for _ in range(calls):
            act()

    return repeated
