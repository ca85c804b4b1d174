# Written by tools/blocking.py: edit assertions_async.py instead, then run make clients.
"""Reads every message that was pushed and is not settled, blocking."""

from __future__ import annotations

from ackq.core.inspection_results import PeekedMessage
from ackq.queue.client import Queue
from ackq.sharded.client import ShardedQueue
from ackq.testing.deliveries import parts_of

#: How many messages one call reads.
PAGE = 1000


def unsettled(queue: Queue | ShardedQueue) -> list[PeekedMessage]:
    """Return the messages that are ready, delayed or in flight."""
    messages: list[PeekedMessage] = []
    for part in parts_of(queue):
        for state in ("ready", "delayed", "in_flight"):
            page, skip = part.peek(PAGE, state), 0
            while page:
                messages += page
                skip += len(page)
                page = part.peek(PAGE, state, skip=skip)
    return messages
