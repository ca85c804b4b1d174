"""The shards of a queue as they are recorded, and a consumer's part in them, on asyncio."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ackq.core.io.together_async import Prepared, run_all
from ackq.errors import LeaseLost
from ackq.membership.client_async import AsyncConsumerGroup
from ackq.membership.shards import Shards
from ackq.queue import inspection, take
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message, QueueStats
from ackq.sharded import operations
from ackq.sharded.choice import Choice
from ackq.sharded.waiters_async import AsyncShardWaiters


class AsyncShardSet:
    """The queues of the shards. Shards are named by their places in ``queues``."""

    def __init__(
        self, recorded: Shards, queues: Sequence[AsyncQueue], members: AsyncConsumerGroup
    ) -> None:
        self.recorded = recorded
        self.queues = tuple(queues)
        self.members = members
        self._waiters = AsyncShardWaiters(self.queues)
        self._choice = Choice()

    async def take(
        self,
        n: int,
        visibility_timeout: float | None,
        acked: dict[AsyncQueue, list[Message]],
    ) -> list[Message] | None:
        """Take from the shard that is next; meanwhile ack messages, and forget them.

        Returns:
            None if all shards that this consumer looked at are empty.
        """
        shard = self._choice.shard(time.monotonic())
        if shard is None:
            shard = await self._look(acked)
        if shard is None:
            return None
        queue = self.queues[shard]
        own = acked.pop(queue, ())
        if acked:
            taking = queue.beginning(take.pop_many, n, None, visibility_timeout, own)
            taken: list[Message] = (await run([taking, *acks(acked)]))[0]
        else:
            taken = await queue.pop_many(n, None, visibility_timeout, own)
        self._choice.took(shard, len(taken), n)
        return taken

    async def wait(self, timeout: float) -> None:
        """Wait until one of this consumer's shards gets a message, for some time at most."""
        limit = min(timeout, operations.BLOCK_LIMIT)
        for shard in await self._waiters.wait(self.members.partitions, limit):
            self._choice.woken(shard)

    async def close(self) -> None:
        """Leave the consumers, and end all waits."""
        await self.members.aclose()
        await self._waiters.close()

    async def _look(self, acked: dict[AsyncQueue, list[Message]]) -> int | None:
        """Count the messages of the own shards; if there are none, of others.

        Meanwhile ack messages, and forget them.

        Returns:
            The fullest shard; None if no shard that was looked at has messages.
        """
        owned = self.members.partitions
        # A wait that goes on has found nothing yet.
        unknown = [each for each in owned if not self._waiters.waits_on(each)]
        counts = await self._count(unknown, acks(acked))
        self._waiters.seen(counts)
        shard = self._choice.counted(counts, time.monotonic())
        if shard is not None:
            return shard
        others = self._choice.others(owned, self.recorded.number, time.monotonic())
        if not others:
            return None
        shard = self._choice.counted(await self._count(others), time.monotonic())
        if shard is not None:
            self._choice.helps()
        return shard

    async def _count(
        self, shards: Sequence[int], besides: Sequence[Prepared[Any]] = ()
    ) -> dict[int, QueueStats]:
        """Count the messages of shards; meanwhile run other operations."""
        looks = [self.queues[each].beginning(inspection.stats) for each in shards]
        found = await run([*besides, *looks])
        return dict(zip(shards, found[len(besides) :], strict=True))


def acks(acked: dict[AsyncQueue, list[Message]]) -> list[Prepared[Any]]:
    """Return the acks of messages by queue, and forget them."""
    found = [queue.beginning(operations.ack, messages) for queue, messages in acked.items()]
    acked.clear()
    return found


async def run(prepared: Sequence[Prepared[Any]]) -> list[Any]:
    """Run operations of several shards together.

    Raises:
        Exception: the first error among the results, except for lost leases.
    """
    if not prepared:
        return []
    results = await run_all(prepared)
    for each in results:
        if isinstance(each, Exception) and not isinstance(each, LeaseLost):
            raise each
    return results
