"""Reads every message that was pushed and is not settled, on asyncio."""

from __future__ import annotations

from ackq.core.inspection_results import PeekedMessage
from ackq.queue.client_async import AsyncQueue
from ackq.sharded.client_async import AsyncShardedQueue
from ackq.testing.deliveries_async import parts_of

#: How many messages one call reads.
PAGE = 1000


async def unsettled(queue: AsyncQueue | AsyncShardedQueue) -> list[PeekedMessage]:
    """Return the messages that are ready, delayed or in flight."""
    messages: list[PeekedMessage] = []
    for part in await parts_of(queue):
        for state in ("ready", "delayed", "in_flight"):
            page, skip = await part.peek(PAGE, state), 0
            while page:
                messages += page
                skip += len(page)
                page = await part.peek(PAGE, state, skip=skip)
    return messages
