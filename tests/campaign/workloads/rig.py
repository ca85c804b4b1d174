"""What a workload provides, and how its processes run.

The loops are coroutines. Blocking clients return at once what asyncio clients return when awaited,
so one loop serves both.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import inspect
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ackq import DeadLetter
from tests.campaign.history import Log
from tests.campaign.site import Site

if TYPE_CHECKING:  # the previous release, which runs these workloads too, does not have it
    from ackq.core.counters import Counters

# redis-py reads its own version again for each connection, which takes longer than to connect.
importlib.metadata.version = functools.cache(importlib.metadata.version)
importlib.metadata.version("redis")

#: Seconds that a lease lasts, unless a product counts in whole seconds.
LEASE = 0.5
#: Seconds for which a queue counts what happens, after it is read: longer than a run.
WATCH = 7 * 86_400


class Got(NamedTuple):
    """A message as its consumer receives it."""

    body: bytes
    received: int | None  #: how often
    until: float | None  #: end of the lease by the server's clock
    handle: Any  #: what settles it


@dataclass(frozen=True)
class Workload:
    """A product, how it is called, and by how many threads or tasks of a process."""

    name: str
    rig: type[Rig]
    asynchronous: bool = False
    crews: int = 4
    batches: tuple[int, ...] = (1, 1, 5, 20)
    pace: float = 0.004  #: seconds between two pushes
    backlog: int = 3000  #: messages that may wait; then producers pause
    sharers: int = 1  #: messages in a row that have the same id
    #: Share of takes whose handlers end about when, or after, the lease does.
    straddling: float = 0.3
    #: What may become of a message, with weights; else what the rig says.
    verbs: Mapping[str, int] = field(default_factory=dict)
    #: Of ackq: confirm, max_receives.
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rules(self) -> dict[str, Any]:
        """What the checker is to know."""
        return {
            "lease": self.rig.lease,
            "drain_within": 60,
            "shared": self.sharers > 1,
            **self.rig.rules,
            **self.settings,
        }


@dataclass(frozen=True)
class Role:
    """The instructions for one process of a run."""

    site: Site
    workload: Workload
    history: Path
    label: str
    seed: int
    stop: Path

    @property
    def log(self) -> Log:
        return Log(self.history / f"{self.label}.jsonl")

    def is_over(self) -> bool:
        """Whether this process is to end: it was asked to, or whoever started it is gone."""
        return self.stop.exists() or os.getppid() == 1


#: A loop of one thread or task: what it is called, and its random numbers.
Crew = Callable[[str, random.Random], Coroutine[Any, Any, None]]


class Rig:
    """One product in one process. Its calls raise what ackq raises."""

    lease = LEASE
    #: Settings of the checker.
    rules: ClassVar[dict[str, Any]] = {}
    #: What may become of a message, with weights.
    verbs: ClassVar[dict[str, int]] = {"ack": 70, "nack": 8, "release": 4, "fused": 18}
    #: What a fused ack that was not refused is: "gone" if it may have been applied before.
    fused = "ok"
    #: Hash tags of its keys.
    tags: ClassVar[tuple[str, ...]] = ("{jobs}",)
    #: Share of pushes that are delayed.
    delayed = 0.0

    def __init__(self, site: Site, workload: Workload) -> None:
        """Connect."""
        self.site = site
        self.workload = workload
        self.settings = workload.settings

    def prepare(self) -> None:
        """Set up what must exist before the first push."""

    async def push(self, entries: list[tuple[str, bytes]], delay: float) -> dict[str, Any]:
        """Store messages; return what the history is to know besides: the index, of a topic."""
        raise NotImplementedError

    async def take(self, n: int, done: Sequence[Any]) -> tuple[list[Got], dict[str, Any]]:
        """Take messages, and ack ``done`` in the same call; return reader and index, of a topic."""
        raise NotImplementedError

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        """Settle messages, and return how many."""
        raise NotImplementedError

    async def stored(self) -> int:
        """Return how many messages are stored, in any state but dead."""
        raise NotImplementedError

    async def left(self) -> dict[str, Any]:
        """Return what is stored besides: ``dead``, ``findings`` and ``keys`` of the event."""
        return {"dead": [], "findings": [], "keys": []}

    async def close(self) -> None:
        """Close every connection."""

    async def serve(self, role: Role) -> None:
        """Take, handle and settle until the role is over."""
        from .loops import Consumer

        log = role.log
        await self.crews(role, lambda by, draw: Consumer(self, log, by, draw).run(role.is_over))

    async def supply(self, role: Role) -> None:
        """Push until the role is over."""
        from .loops import Producer

        log = role.log
        draw = random.Random(f"{role.seed} {role.label}")
        await Producer(self, log, role.label, draw).run(role.is_over)

    async def crews(self, role: Role, crew: Crew) -> None:
        """Run a loop in each thread or task of this process, and return when all have ended."""
        loops = [
            crew(f"{role.label}.{n}", random.Random(f"{role.seed} {role.label} {n}"))
            for n in range(self.workload.crews)
        ]
        if self.workload.asynchronous:
            await asyncio.gather(*loops)
            return
        threads = [threading.Thread(target=run_blocking, args=(each,)) for each in loops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async def sleep(self, seconds: float) -> None:
        if self.workload.asynchronous:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)


def totals_left(counters: Counters, dead: Sequence[DeadLetter]) -> dict[str, Any]:
    """Return what the last event says of a queue's totals."""
    totals = asdict(counters)
    totals.pop("timeouts", None)  # no JSON object, since its keys are numbers
    return {"totals": totals, "reasons": Counter(each.reason for each in dead)}


async def value(result: Any) -> Any:
    """Return the result of a call, awaited if the client is asyncio's."""
    return await result if inspect.isawaitable(result) else result


def run_blocking(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits in an event loop; return its result."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("a blocking client was awaited")


# --- the functions of child processes -------------------------------------------------


def consume(role: Role) -> None:
    """Be a consumer."""
    _be(role, lambda rig: rig.serve(role))


def produce(role: Role) -> None:
    """Be a producer."""
    _be(role, lambda rig: rig.supply(role))


def _be(role: Role, what: Callable[[Rig], Coroutine[Any, Any, None]]) -> None:
    # What ackq logs, and a traceback if the process fails.
    with role.history.with_name("processes.log").open("ab") as file:
        os.dup2(file.fileno(), 2)

    async def main() -> None:
        rig = role.workload.rig(role.site, role.workload)
        try:
            await what(rig)
        finally:
            await rig.close()

    slip = role.site.slip
    with slip.planted() if slip else contextlib.nullcontext():
        if role.workload.asynchronous:
            asyncio.run(main())
        else:
            run_blocking(main())
