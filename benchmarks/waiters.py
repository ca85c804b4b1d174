"""Many waiters on one empty queue: who wakes at a push, how soon, and what waiting costs.

ackq's waiters sit in ``AsyncQueue.pop``, the others in BRPOP: a connection each, one event
loop for all, in turns. The server counts the commands.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from abc import ABC, abstractmethod
from typing import Any

import orjson
import redis.asyncio

from ackq import AsyncQueue, Message
from ackq.keys import QueueKeys
from benchmarks import report
from benchmarks.contestants.base import Messages
from benchmarks.contestants.leased import LONG
from benchmarks.servers import target

#: Seconds that one wait lasts; the waiter then waits again.
PATIENCE = 30.0
#: What waiters send. Commands that a script runs are counted by Redis too, and left out here.
SENT = ("evalsha", "blmove", "brpop")


class Waiters(ABC):
    """Tasks that wait for messages, say when one came, and then wait to be let on."""

    def __init__(self, url: str, count: int, key: str) -> None:
        self.key, self.count = key, count
        self.client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(
            url, socket_timeout=None, max_connections=2 * count
        )
        self.came: asyncio.Queue[float] = asyncio.Queue()
        self.let_on = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self.count)]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.close()
        failures = [end for end in ends if isinstance(end, Exception)]
        if failures:
            raise ExceptionGroup("waiters failed", failures)

    async def _work(self) -> None:
        taken: Any = None
        while True:
            taken = await self.wait(taken)
            if taken:
                self.came.put_nowait(time.perf_counter())
                await self.let_on.wait()

    @abstractmethod
    async def wait(self, taken: Any) -> Any:
        """Settle what was ``taken`` before and wait for the next message."""

    async def close(self) -> None:
        await self.client.aclose()


class AckqWaiters(Waiters):
    """`AsyncQueue.pop` with the ack of the message before."""

    def __init__(self, url: str, count: int, key: str) -> None:
        super().__init__(url, count, key)
        self._queue = AsyncQueue(self.client, key, visibility_timeout=LONG)

    async def wait(self, taken: Message | None) -> Message | None:
        return await self._queue.pop(PATIENCE, ack=taken or ())

    async def close(self) -> None:
        await self._queue.aclose()
        await super().close()


class BareWaiters(Waiters):
    """BRPOP, which loses what its consumer held."""

    async def wait(self, taken: Any) -> Any:
        reply: Any = self.client.brpop([self.key], timeout=PATIENCE)
        return await reply


class Counts:
    """How many commands of waiters the server has seen."""

    def __init__(self, url: str) -> None:
        self._client: redis.Redis = redis.Redis.from_url(url)

    def read(self) -> dict[str, int]:
        stats: Any = self._client.info("commandstats")
        return {name: stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in SENT}

    def blocked(self) -> int:
        clients: Any = self._client.info("clients")
        return int(clients["blocked_clients"])

    def close(self) -> None:
        self._client.close()


async def idle_rate(counts: Counts, seconds: float) -> float:
    """Return how many commands a second the waiters send while nothing comes."""
    before, start = counts.read(), time.perf_counter()
    await asyncio.sleep(seconds)
    after, end = counts.read(), time.perf_counter()
    return sum(after[name] - before[name] for name in SENT) / (end - start)


async def deliver(
    waiters: Waiters, counts: Counts, producer: redis.asyncio.Redis, key: str, body: bytes
) -> tuple[float, int]:
    """Push one message; return the seconds to its delivery and the commands sent for it."""
    waiters.let_on.clear()
    before, start = counts.read(), time.perf_counter()
    pushed: Any = producer.lpush(key, body)
    await pushed
    arrival = await waiters.came.get()
    after = counts.read()
    waiters.let_on.set()
    return arrival - start, sum(after[name] - before[name] for name in SENT)


async def measure_one(
    kind: type[Waiters], url: str, settings: argparse.Namespace
) -> dict[str, Any]:
    """Let the waiters of one kind wait, count, and push to them."""
    key, draw = "ackq-benchmark:waiters", random.Random(settings.seed)
    messages = Messages(settings.seed)
    counts = Counts(url)
    waiters = kind(url, settings.waiters, key)
    async with redis.asyncio.Redis.from_url(url) as producer:
        await producer.delete(*QueueKeys.of(key).all())
        waiters.start()
        try:
            async with asyncio.timeout(30):
                while counts.blocked() < settings.waiters * 0.9:
                    await asyncio.sleep(0.05)
            idle = await idle_rate(counts, settings.idle)
            found = []
            for _ in range(settings.pushes):
                await asyncio.sleep(draw.uniform(0, 0.02))
                body = orjson.dumps(messages.one())
                found.append(await deliver(waiters, counts, producer, key, body))
        finally:
            await waiters.stop()
            counts.close()
            await producer.delete(*QueueKeys.of(key).all())
    return {"idle": idle, "latency": [s for s, _ in found], "sent": [n for _, n in found]}


async def run(url: str, settings: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Measure both kinds in turns and put the rounds together."""
    kinds: dict[str, type[Waiters]] = {"ackq": AckqWaiters, "BRPOP": BareWaiters}
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in kinds}
    for _ in range(settings.rounds):
        for name, kind in kinds.items():
            rounds[name].append(await measure_one(kind, url, settings))
    return {name: figures_of(found) for name, found in rounds.items()}


def figures_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of one contestant; the percentiles are each round's."""
    cuts = [statistics.quantiles(found["latency"], n=100) for found in rounds]
    sent = [count for found in rounds for count in found["sent"]]
    return {
        "delivery p50, ms": report.as_figure([cut[49] * 1000 for cut in cuts]),
        "delivery p99, ms": report.as_figure([cut[98] * 1000 for cut in cuts]),
        "commands from push to delivery": report.as_figure(sent),
        "their mean": report.as_figure([statistics.mean(found["sent"]) for found in rounds]),
        "commands a second while idle": report.as_figure([found["idle"] for found in rounds]),
    }


def main() -> None:
    """Measure, print, write."""
    options = report.parser("waiters", "Wake one of many waiters.")
    options.add_argument("--waiters", type=int, default=200, help="default: 200")
    options.add_argument("--pushes", type=int, default=300, help="in a round; default: 300")
    options.add_argument("--rounds", type=int, default=5, help="default: 5")
    options.add_argument("--idle", type=float, default=8.0, help="seconds idle; default: 8")
    settings = options.parse_args()
    if settings.smoke:
        settings.waiters, settings.pushes, settings.rounds, settings.idle = 10, 5, 1, 0.2
    with target(settings.url) as server:
        facts = report.circumstances(server, settings)
        print(report.describe(facts), flush=True)
        found = asyncio.run(run(server.url, settings))
    print(report.figures_table(found))
    report.write(settings.json, {"benchmark": "waiters", **facts, "contestants": found})


if __name__ == "__main__":
    main()
