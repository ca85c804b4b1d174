"""Delay queues: `DelayQueue`, `PartitionedDelayQueue` and their asyncio twins."""

from ackq.aio.delay import AsyncDelayQueue, AsyncPartitionedDelayQueue
from ackq.errors import DuplicateMessage
from ackq.protocol.delay import DelayedMessage, DelayEntry, DelayStats
from ackq.sync.delay import DelayQueue, PartitionedDelayQueue

__all__ = [
    "AsyncDelayQueue",
    "AsyncPartitionedDelayQueue",
    "DelayEntry",
    "DelayQueue",
    "DelayStats",
    "DelayedMessage",
    "DuplicateMessage",
    "PartitionedDelayQueue",
]
