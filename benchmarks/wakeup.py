"""Many waiters on one empty queue: how soon a push is delivered, and what waiting costs.

The waiters are asyncio tasks in one process, with one connection each: ackq's in
``AsyncQueue.pop``, the others in BRPOP. The producer is another process, so that neither delays the
other. A message carries the time of its push, by the clock that all processes share.
"""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import orjson
import redis
import redis.asyncio

from ackq import AsyncQueue, Message
from ackq.bench.contestants import LONG
from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.rounds import PERCENTILES, in_turns, percentile, percentiles
from ackq.queue.keys import QueueKeys
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.processes import beside
from benchmarks.servers import target

PURPOSE = "Wake one of many waiters."
KEY = "ackq-benchmark:wakeup"
#: Seconds that one wait lasts; the waiter then waits again.
POP_TIMEOUT = 30.0
#: Seconds between two pushes, at least and at most.
GAPS = (0.005, 0.02)
#: Longest time, in seconds, until every waiter waits.
GETTING_READY = 30.0
#: The commands that waiters send. Redis also counts those that a script runs; they are left out.
SENT = ("evalsha", "blmove", "brpop")


def options(options: Options) -> None:
    """Add the options."""
    options.size("waiters", (1, 10, 200), smoke=(1, 10), help="at once")
    options.size("pushes", 600, quick=300, smoke=5, help="in a round")
    options.size("rounds", 8, quick=3, smoke=1, help="of each contestant")
    options.size("idle", 3.0, quick=1.0, smoke=0.1, help="seconds idle in a round")


class Waiters(ABC):
    """Tasks that wait for messages, and record when each arrives."""

    def __init__(self, url: str, count: int) -> None:
        self.client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(
            url, socket_timeout=None, max_connections=2 * count
        )
        #: Seconds from the push of each message to its delivery.
        self.delays: list[float] = []
        self._count = count
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._count)]

    async def wait_for(self, pushes: int) -> None:
        """Wait until ``pushes`` messages have arrived, or raise a waiter's exception."""
        while len(self.delays) < pushes:
            failed = [task for task in self._tasks if task.done()]
            if failed:
                await failed[0]
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.close()

    async def _work(self) -> None:
        while True:
            body = await self.take()
            now = time.monotonic()
            if body is not None:
                self.delays.append(now - orjson.loads(body)["pushed"])

    @abstractmethod
    async def take(self) -> bytes | None:
        """Settle this task's previous message and wait for the next."""

    async def close(self) -> None:
        await self.client.aclose()


class AckqWaiters(Waiters):
    """`AsyncQueue.pop` with the ack of the previous message."""

    def __init__(self, url: str, count: int) -> None:
        super().__init__(url, count)
        self._queue = AsyncQueue(self.client, KEY, visibility_timeout=LONG)
        self._taken: dict[Any, Message] = {}

    async def take(self) -> bytes | None:
        task = asyncio.current_task()
        message = await self._queue.pop(POP_TIMEOUT, ack=self._taken.pop(task, ()))
        if message is None:
            return None
        self._taken[task] = message
        return message.body

    async def close(self) -> None:
        await self._queue.aclose()
        await super().close()


class BareWaiters(Waiters):
    """BRPOP: a crash of the consumer loses its message."""

    async def take(self) -> bytes | None:
        reply: Any = self.client.brpop([KEY], timeout=POP_TIMEOUT)
        found: Any = await reply
        return found[1] if found else None


KINDS: dict[str, type[Waiters]] = {"ackq": AckqWaiters, "BRPOP": BareWaiters}


class Server:
    """The server's counts."""

    def __init__(self, url: str) -> None:
        self._client: redis.Redis = redis.Redis.from_url(url)
        self._blocked_before = self.blocked()

    def sent(self) -> int:
        """Return how many commands of waiters it has seen."""
        stats: Any = self._client.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in SENT)

    def blocked(self) -> int:
        clients: Any = self._client.info("clients")
        return int(clients["blocked_clients"])

    async def wait_for(self, count: int) -> None:
        """Return when most of ``count`` waiters wait: some look again just now."""
        async with asyncio.timeout(GETTING_READY):
            while self.blocked() - self._blocked_before < count * 0.9:
                await asyncio.sleep(0.02)

    def close(self) -> None:
        self._client.unlink(*QueueKeys.of(KEY).all())
        self._client.close()


@dataclass(frozen=True, slots=True)
class Round:
    """One round of one contestant."""

    delays: Sequence[float]
    idle_rate: float
    commands: float


def push(pipe: Connection, url: str, pushes: int, seed: int) -> None:
    """Push single messages at random moments, for each order."""
    draw = random.Random(seed)
    with redis.Redis.from_url(url) as client:
        client.ping()
        pipe.send("ready")
        pipe.recv()
        for number in range(pushes):
            time.sleep(draw.uniform(*GAPS))
            body = {"id": f"m{number:08d}", "payload": "x" * 40, "pushed": time.monotonic()}
            client.lpush(KEY, orjson.dumps(body))


def measure(kind: type[Waiters], url: str, count: int, settings: Settings) -> Round:
    """Let ``count`` waiters of one kind wait, count, and push to them."""
    return asyncio.run(_measured(kind, url, count, settings))


async def _measured(kind: type[Waiters], url: str, count: int, settings: Settings) -> Round:
    server = Server(url)
    waiters = kind(url, count)
    try:
        with beside(push, url, settings.pushes, settings.seed) as producer:
            producer.recv()
            waiters.start()
            await server.wait_for(count)
            await asyncio.sleep(min(settings.idle, 1))  # until they no longer wait in step
            before, start = server.sent(), time.monotonic()
            await asyncio.sleep(settings.idle)
            idle_rate = (server.sent() - before) / (time.monotonic() - start)
            before, start = server.sent(), time.monotonic()
            producer.send("go")
            await waiters.wait_for(settings.pushes)
            extra = server.sent() - before - idle_rate * (time.monotonic() - start)
    finally:
        await waiters.stop()
        server.close()
    return Round(sorted(waiters.delays), idle_rate, extra / settings.pushes)


def run(settings: Settings) -> Result:
    """Measure every number of waiters, both kinds in turns."""
    with target(settings.url) as server:
        result = Result("wakeup", facts(server, settings))
        for count in settings.waiters:
            progress(f"{count} waiters")
            measure(BareWaiters, server.url, count, _warm_up(settings))
            turns = {
                name: partial(measure, kind, server.url, count, settings)
                for name, kind in KINDS.items()
            }
            _report(result, count, in_turns(turns, settings.rounds))
    result.notes.append(
        "A waiter of ackq sends BLMOVE and pop together. They end together if nothing is pushed"
        " meanwhile, for messages that become ready without a push: after a second at most for a"
        " single waiter, and every 50 ms for all of many."
    )
    return result


def _warm_up(settings: Settings) -> Settings:
    return Settings(**{**vars(settings), "pushes": min(settings.pushes, 50), "idle": 0.0})


def _report(result: Result, count: int, rounds: dict[str, list[Round]]) -> None:
    case = f"{count} waiters" if count > 1 else "1 waiter"
    for name, found in rounds.items():
        delays = [each.delays for each in found]
        for label, share in PERCENTILES.items():
            if values := percentiles(share, delays):
                figure, shown = f"delivery, {label}", tuple(value * 1000 for value in values)
                result.measures.append(Measure(case, name, figure, "ms", shown))
        idle, sent = (
            tuple(each.idle_rate for each in found),
            tuple(each.commands for each in found),
        )
        result.measures += [
            Measure(case, name, "commands while idle", "commands/s", idle),
            Measure(case, name, "commands for a delivery", "commands", sent),
        ]
    for label, ceiling in (("p50", None), ("p99", 2.5)):
        above, below = (
            [percentile(PERCENTILES[label], each.delays) for each in rounds[name]]
            for name in ("ackq", "BRPOP")
        )
        what = f"{case}: ackq / BRPOP: delivery, {label}"
        result.ratios.append(Ratio.of(what, above, below, ceiling, ceiling=True))
