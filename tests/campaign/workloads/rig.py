"""What a workload provides, and how its processes run.

The loops are coroutines. Blocking clients return at once what asyncio clients return when awaited,
so one loop serves both.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import redis

import ackq
from tests.campaign.site import Site
from tests.histories.log import FileLog, Log
from tests.products import Product
from tests.products.listed import deep_after
from tests.products.loops import PAUSE, Consumer, Habits, Producer
from tests.products.outcome import Outcome, outcome_of
from tests.products.product import value

# redis-py reads its own version again for each connection, which takes longer than to connect.
importlib.metadata.version = functools.cache(importlib.metadata.version)
importlib.metadata.version("redis")

#: Seconds that a delayed push waits.
DELAY = 2.0
#: Seconds that a message of a nack waits.
NACKS = (0.0, 0.1)
#: Share of calls that asyncio cancels, and turns of the event loop after which it does.
CANCELLED = 0.03
TURNS = 60
#: Share of pushes after which a producer of some workloads is an operator for once.
OPERATING = 0.2


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
    #: Settings of ackq: confirm, max_receives. Settings of the workload: see `ListRig`.
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
    def log(self) -> FileLog:
        return FileLog(self.history / f"{self.label}.jsonl")

    def is_over(self) -> bool:
        """Whether this process is to end: it was asked to, or whoever started it is gone."""
        return self.stop.exists() or os.getppid() == 1


#: A loop of one thread or task: what it is called, and its random numbers.
Crew = Callable[[str, random.Random], Coroutine[Any, Any, None]]


class Rig(Product):
    """One product in one process of a run."""

    #: Hash tags of its keys.
    tags: ClassVar[tuple[str, ...]] = ("{jobs}",)
    # Perhaps nothing was ever sent; or it was, again and again.
    unsure = (redis.RedisError, ackq.AckqError, asyncio.CancelledError)

    def __init__(self, site: Site, workload: Workload) -> None:
        """Connect."""
        self.site = site
        self.workload = workload
        self.settings = workload.settings
        verbs = workload.verbs or self.verbs
        self.habits = Habits(
            batches=workload.batches,
            straddling=workload.straddling,
            extending=0.4 if "nack" in verbs else 0.0,
            verbs=verbs,
            delays=(DELAY,),
            nacks=NACKS,
            sharers=workload.sharers,
        )
        self.queue = self._open()

    def _open(self) -> Any:
        """Return a client."""
        raise NotImplementedError

    def _client(self) -> Any:
        """Return a client of redis-py."""
        return self.site.async_client() if self.workload.asynchronous else self.site.client()

    async def attempt(self, call: Awaitable[Any], draw: random.Random, log: Log) -> Outcome:
        """Make a call. With asyncio, a few calls are cancelled at a random await."""
        if not self.workload.asynchronous or draw.random() > CANCELLED:
            return await super().attempt(call, draw, log)
        begin = log.now()
        task = asyncio.ensure_future(call)
        for _ in range(draw.randrange(TURNS)):
            await asyncio.sleep(0)
        task.cancel()
        found = await super().attempt(task, draw, log)
        log.write(do="fault", kind="cancellation", begin=begin, end=log.now())
        return found

    async def serve(self, role: Role) -> None:
        """Take, handle and settle until the role is over."""
        log = role.log

        async def consume(by: str, draw: random.Random) -> None:
            consumer = Consumer(self, self.habits, log, by, draw)
            while not role.is_over():
                await consumer.work()
            await consumer.finish()

        await self.crews(role, consume)

    async def supply(self, role: Role) -> None:
        """Push until the role is over."""
        draw = random.Random(f"{role.seed} {role.label}")
        producer = Producer(self, self.habits, role.log, role.label, draw)
        while not role.is_over():
            if draw.random() < 0.2:
                await self._wait_for_consumers(role, draw)
            await producer.push()
            await self.operate(role.log, draw)
            await self.sleep(self.workload.pace)

    async def operate(self, log: Log, draw: random.Random) -> None:
        """Do something to the queue now and then, as an operator, if the workload says so."""

    async def look(self, log: Log, draw: random.Random, act: Callable[[], Any]) -> list[Any]:
        """Return what a call returns, for an operator to choose from; nothing if it fails."""
        return (await self.attempt(_called(act), draw, log)).result or []

    async def order(
        self,
        log: Log,
        draw: random.Random,
        verb: str,
        ids: Sequence[str],
        act: Callable[[], Any],
        delay: float = 0.0,
    ) -> None:
        """Do something to messages or groups as an operator, and write down what became of it."""
        call = log.begin(verb, ids=ids, delay=delay)
        found = await self.attempt(_called(act), draw, log)
        state = found.state_of_chosen(len(ids), is_resent=verb == "reschedule")
        # An error may have come after the first of several requests.
        log.end(call, "unknown" if found.state == "fail" else state)

    async def _wait_for_consumers(self, role: Role, draw: random.Random) -> None:
        while not role.is_over():
            found = await outcome_of(self.stored(), self.unsure)
            if found.state == "ok" and found.result < self.workload.backlog:
                return
            await self.operate(role.log, draw)
            await self.sleep(PAUSE)

    async def crews(self, role: Role, crew: Crew) -> None:
        """Run a loop in each thread or task of this process, and return when all have ended."""
        loops = [
            crew(f"{role.label}.{n}", random.Random(f"{role.seed} {role.label} {n}"))
            for n in range(self.workload.crews)
        ]
        if self.workload.asynchronous:
            await asyncio.gather(*loops)
            return
        threads = [threading.Thread(target=run_blocking, args=(loop,)) for loop in loops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async def sleep(self, seconds: float) -> None:
        if self.workload.asynchronous:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)


async def _called(act: Callable[[], Any]) -> Any:
    return await value(act())


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
        near = role.workload.settings.get("near")
        try:
            with deep_after(near) if near else contextlib.nullcontext():
                await what(rig)
        finally:
            await rig.close()

    slip = role.site.slip
    with slip.planted() if slip else contextlib.nullcontext():
        if role.workload.asynchronous:
            asyncio.run(main())
        else:
            run_blocking(main())
