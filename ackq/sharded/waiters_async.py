"""Wait for work on several shards at once, with a task for each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ackq.queue.client_async import AsyncQueue
from ackq.sharded import operations

#: Seconds between two checks of a consumer that serves no shard.
IDLE_POLL = 0.1


class AsyncShardWaiters:
    """Waits that may outlast their call: a message that they find stays at its queue's front."""

    def __init__(self, queues: Sequence[AsyncQueue]) -> None:
        self._queues = queues
        self._waiting: dict[int, asyncio.Task[None]] = {}

    async def wait(self, shards: Sequence[int], timeout: float) -> None:
        """Return when one of ``shards`` may have a message, or after ``timeout`` seconds."""
        if not shards:
            await asyncio.sleep(min(timeout, IDLE_POLL))
            return
        tasks = []
        for shard in shards:
            task = self._waiting.get(shard)
            if task is None or task.done():
                task = asyncio.create_task(self._wait(shard), name=f"ackq-shard-{shard}")
                self._waiting[shard] = task
            tasks.append(task)
        done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def close(self) -> None:
        """Cancel all running waits."""
        tasks = [task for task in self._waiting.values() if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _wait(self, shard: int) -> None:
        queue = self._queues[shard]
        await queue.execute(operations.wait, operations.BLOCK_LIMIT)
