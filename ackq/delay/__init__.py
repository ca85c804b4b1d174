"""Delay queues: `DelayQueue`, `PartitionedDelayQueue` and their asyncio twins."""

from ackq.core.counters import Counters
from ackq.delay.claims import ClaimedMessage
from ackq.delay.claims_client import DelayClaims
from ackq.delay.client import DelayQueue, PartitionedDelayQueue
from ackq.delay.client_async import AsyncDelayQueue, AsyncPartitionedDelayQueue
from ackq.delay.messages import DelayedMessage, DelayEntry, DelayStats
from ackq.delay.staging_client import DelayStaging
from ackq.errors import DuplicateMessage

__all__ = [
    "AsyncDelayQueue",
    "AsyncPartitionedDelayQueue",
    "ClaimedMessage",
    "Counters",
    "DelayClaims",
    "DelayEntry",
    "DelayQueue",
    "DelayStaging",
    "DelayStats",
    "DelayedMessage",
    "DuplicateMessage",
    "PartitionedDelayQueue",
]
