"""Lists without ackq: a bare list on asyncio, and a list with a processing list."""

from collections.abc import Iterable, Sequence

import orjson
import redis

from ackq.bench.contestants import Contestant, bodies_of
from ackq.bench.messages import Messages
from benchmarks.contestants.loop import AsyncContestant


class AsyncBareList(AsyncContestant):
    """LPUSH and RPOP by redis-py on asyncio."""

    async def acycle(self) -> int:
        if self.batch == 1:
            await self.aclient.lpush(self.key, orjson.dumps(self.messages.one()))
            return bodies_of(await self.aclient.rpop(self.key))
        bodies = map(orjson.dumps, self.messages.many(self.batch))
        await self.aclient.lpush(self.key, *bodies)
        return bodies_of(await self.aclient.rpop(self.key, self.batch))


class ProcessingList(Contestant):
    """LMOVE to a second list and LREM from there: survives a crash if messages are moved back.

    The LREMs travel with the next LMOVEs in one pipeline. Their order lets each find its body at
    once, at the left end.
    """

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self._hand = f"{key}:hand"
        self._taken: Sequence[bytes] = ()

    def side_keys(self) -> Iterable[str]:
        return (f"{self.key}:hand",)

    def hold(self, messages: Messages, count: int) -> bool:
        self.client.rpush(self._hand, *map(orjson.dumps, messages.many(count)))
        return True

    def cycle(self) -> int:
        self.client.lpush(self.key, *map(orjson.dumps, self.messages.many(self.batch)))
        pipeline: redis.client.Pipeline = self.client.pipeline(transaction=False)
        for body in reversed(self._taken):
            pipeline.lrem(self._hand, 1, body)  # type: ignore[arg-type]
        for _ in range(self.batch):
            pipeline.lmove(self.key, self._hand, "RIGHT", "LEFT")
        replies = pipeline.execute()
        self._taken = replies[len(self._taken) :]
        return sum(body is not None for body in self._taken)
