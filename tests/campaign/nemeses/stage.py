"""What a nemesis acts on, and how it says what it did."""

import contextlib
import heapq
import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.campaign.crew import Crew
from tests.histories.log import Log, now

Nemesis = Callable[["Stage", random.Random], None]

NEMESES: dict[str, Nemesis] = {}


def nemesis(name: str) -> Callable[[Nemesis], Nemesis]:
    """Register a function under the name that schedules use."""

    def register(function: Nemesis) -> Nemesis:
        NEMESES[name] = function
        return function

    return register


@dataclass
class Effect:
    """What a fault may have done to answers."""

    #: What was answered from then on may be undone; None: nothing.
    since: float | None = None
    times: int = 1  #: how many faults it counts as


class Stage:
    """The processes and servers of a run, and the history of its faults."""

    def __init__(self, deployment: Any, crew: Crew, log: Log) -> None:
        self.on = deployment
        self.crew = crew
        self._log = log
        self._pending: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    @contextlib.contextmanager
    def fault(
        self, kind: str, since: float | None = None, clock: bool = False, times: int = 1
    ) -> Iterator[Effect]:
        """Log a fault around this block, which may set the effect.

        Args:
            kind: its name in the results.
            since: answers from then on may be undone; None: none may.
            clock: whether leases and delays may end early.
            times: how many faults it counts as.
        """
        begin, effect = now(), Effect(since, times)
        yield effect
        self._log.write(
            do="fault",
            kind=kind,
            begin=begin,
            end=now(),
            since=effect.since,
            clock=clock,
            times=effect.times,
        )

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run ``action`` after that time, while the run goes on."""
        heapq.heappush(self._pending, (now() + seconds, next(self._numbers), action))

    def wait_until(self, at: float) -> None:
        """Return at that time; until then, run what is due."""
        while now() < at:
            due = self._pending[0][0] if self._pending else at
            time.sleep(max(0.0, min(due, at) - now()))
            self._run_due()

    def settle(self) -> None:
        """Run everything that was put off, now."""
        while self._pending:
            heapq.heappop(self._pending)[2]()

    def _run_due(self) -> None:
        while self._pending and self._pending[0][0] <= now():
            heapq.heappop(self._pending)[2]()
