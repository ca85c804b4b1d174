"""What a case is: a script, a shape in words, and a function that brings a server into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.worst.scene import Scene

#: What is measured once a server is in a bad state; what it returns is of no interest.
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
    """Register a function that prepares a `Scene`, and returns what to measure."""

    def register(prepare: Prepare) -> Prepare:
        CASES.append(Case(script, shape, prepare))
        return prepare

    return register


def times(calls: int, act: Act) -> Act:
    """Return what does ``act`` so many times."""

    def repeated() -> None:
        for _ in range(calls):
            act()

    return repeated
