"""Which fault strikes at which request, and how long each request takes."""

import itertools
import random
from collections.abc import Collection
from typing import NamedTuple

#: Kinds of faults, with weights. See `tests.simulation.world.Exchange`.
KINDS = {
    "death": 3,  # the process dies; nothing is sent
    "death while waiting": 3,  # it dies with the request under way
    "unreachable": 2,  # no connection; nothing is sent
    "request lost": 3,  # the connection breaks before the server reads the request
    "reply lost": 5,  # the connection breaks after the server has applied it
    "late request": 4,  # it breaks, and the server applies the request only later
    "slow request": 4,  # the request is under way for about a lease
    "slow reply": 4,  # the process stops for about a lease before it reads the reply
    "loading": 1,  # an error reply for a while, such as during a failover
    "scripts flushed": 1,
    "no memory": 2,  # the server is full
    "clock set": 2,  # the server's clock jumps by up to two leases, forward or back
}
#: Mean seconds of a request, and of a reply.
LATENCY = 0.0005


class Strike(NamedTuple):
    """What happens to one request."""

    kind: str  #: one of `KINDS`, or "" for none
    size: float  #: 0 to 1: how long, or how far
    there: float  #: seconds until the server applies it
    back: float  #: seconds until the process reads the reply


class Faults:
    """The faults of one history.

    Request n of a process always meets the same one, so that others can be left out.
    """

    def __init__(self, seed: int, sets_clock: bool, only: Collection[str] | None = None) -> None:
        """Draw from ``seed``; let only these requests, such as "consumer-0.1:7", meet faults."""
        self._seed = seed
        draw = random.Random(f"faults {seed}")
        self._rate = draw.choice((0.0, 0.02, 0.05, 0.1, 0.2, 0.4))
        # A clock that was set excuses early deliveries, so most histories go without.
        sets_clock = draw.random() < 0.15 and sets_clock
        self._kinds = {**KINDS, "clock set": KINDS["clock set"] * sets_clock}
        self._only = only
        #: The draws of each process, and how many requests it has sent.
        self._draws: dict[str, tuple[random.Random, itertools.count[int]]] = {}
        #: Whether faults strike now.
        self.are_on = False
        #: The faults that have struck, by request.
        self.struck: dict[str, str] = {}

    def next(self, process: str) -> Strike:
        """Return what happens to the next request of a process."""
        if process not in self._draws:
            draw = random.Random(f"faults {self._seed} {process}")
            self._draws[process] = draw, itertools.count()
        draw, numbers = self._draws[process]
        request = f"{process}:{next(numbers)}"
        luck, kind = draw.random(), draw.choices([*self._kinds], [*self._kinds.values()])[0]
        size = draw.random()
        there, back = draw.expovariate(1 / LATENCY), draw.expovariate(1 / LATENCY)
        strikes = self.are_on and luck < self._rate
        if not strikes or (self._only is not None and request not in self._only):
            return Strike("", size, there, back)
        self.struck[request] = kind
        return Strike(kind, size, there, back)
