"""Contestants that are coroutines."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Iterable

import redis.asyncio

from ackq import AsyncQueue, Message
from ackq.bench.contestants import LONG, Contestant
from ackq.bench.messages import Messages
from ackq.core.names import SUFFIXES


class AsyncContestant(Contestant):
    """A contestant that runs its cycles one after the other in its own event loop."""

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.aclient: redis.asyncio.Redis = redis.asyncio.Redis.from_url(url)
        self._runner = asyncio.Runner()

    @abstractmethod
    async def acycle(self) -> int:
        """Run one cycle, as `cycle` does."""

    def cycle(self) -> int:
        return self._runner.run(self.acycle())

    def burst(self, cycles: int) -> tuple[int, list[float]]:
        return self._runner.run(self._burst(cycles))

    async def _burst(self, cycles: int) -> tuple[int, list[float]]:
        cycle, clock = self.acycle, time.perf_counter
        came, stamps = 0, [clock()]
        for _ in range(cycles):
            came += await cycle()
            stamps.append(clock())
        return came, stamps

    async def aclose(self) -> None:
        """Disconnect."""
        await self.aclient.aclose()

    def close(self) -> None:
        self._runner.run(self.aclose())
        self._runner.close()
        super().close()


class AsyncAckq(AsyncContestant):
    """The same as `ackq.bench.contestants.Ackq`, with `ackq.AsyncQueue`."""

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.queue = AsyncQueue(self.aclient, key, visibility_timeout=LONG)
        self._taken: list[Message] | Message | tuple[()] = ()

    def side_keys(self) -> Iterable[str]:
        return (self.key + suffix for suffix in SUFFIXES)

    def hold(self, messages: Messages, count: int) -> bool:
        self._runner.run(self._hold(messages, count))
        return True

    async def _hold(self, messages: Messages, count: int) -> None:
        await self.queue.push_many(messages.many(count))
        while count > 0:
            count -= len(await self.queue.pop_many(count))

    async def acycle(self) -> int:
        if self.batch == 1:
            await self.queue.push(self.messages.one())
            message = await self.queue.pop(ack=self._taken)
            self._taken = message or ()
            return 1 if message else 0
        await self.queue.push_many(self.messages.many(self.batch))
        taken = await self.queue.pop_many(self.batch, ack=self._taken)
        while 0 < (missing := self.batch - len(taken)) < self.batch:
            more = await self.queue.pop_many(missing)  # one call moves 1 MiB
            if not more:
                break
            taken += more
        self._taken = taken
        return len(taken)

    async def aclose(self) -> None:
        await self.queue.aclose()
        await super().aclose()
