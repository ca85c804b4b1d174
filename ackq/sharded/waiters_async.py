"""Wait for work on several shards at once, with a task for each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ackq.queue.client_async import AsyncQueue
from ackq.sharded import operations

#: Seconds between two checks of a consumer that serves no shard.
IDLE_POLL = 0.1


class AsyncShardWaiters:
    """Waits that may outlast their call: a message that they find stays at its queue's front."""

    def __init__(self, queues: Sequence[AsyncQueue]) -> None:
        self._queues = queues
        self._waiting: dict[int, asyncio.Task[bool]] = {}
        #: The waits that began with an empty shard that was not paused.
        self._blocked: dict[int, asyncio.Task[bool]] = {}
        self._counts: dict[int, operations.ShardCounts] = {}

    def waits_on(self, shard: int) -> bool:
        """Return whether a wait on ``shard`` goes on: it has had no message since it began."""
        task = self._blocked.get(shard)
        return task is not None and not task.done()

    def seen(self, counts: Mapping[int, operations.ShardCounts]) -> None:
        """Note what shards have just had; the next wait does not ask again."""
        self._counts = dict(counts)

    async def wait(self, shards: Sequence[int], timeout: float) -> list[int]:
        """Return those of ``shards`` that got a message; none after ``timeout`` seconds."""
        if not shards:
            await asyncio.sleep(min(timeout, IDLE_POLL))
            return []
        tasks = {}
        for shard in shards:
            task = self._waiting.get(shard)
            if task is None or task.done():
                counts = self._counts.pop(shard, None)
                task = asyncio.create_task(self._wait(shard, counts), name=f"ackq-shard-{shard}")
                task.add_done_callback(_retrieve)
                self._waiting[shard] = task
                self._blocked.pop(shard, None)
                if counts and not counts.paused:
                    self._blocked[shard] = task
            tasks[task] = shard
        done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return [tasks[task] for task in done if task.result()]

    async def close(self) -> None:
        """Cancel all running waits."""
        tasks = [task for task in self._waiting.values() if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _wait(self, shard: int, counts: operations.ShardCounts | None) -> bool:
        queue = self._queues[shard]
        return await queue.execute(operations.wait, operations.MAX_BLOCK, counts)


def _retrieve(task: asyncio.Task[bool]) -> None:
    """Keep asyncio from logging an error that no call waits for: the next wait meets it again."""
    if not task.cancelled():
        task.exception()
