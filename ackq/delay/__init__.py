"""Delay queues: `DelayQueue`, `PartitionedDelayQueue` and their asyncio twins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackq.core.counters import Counters
from ackq.errors import DuplicateMessage
from ackq.late_names import late_names

if TYPE_CHECKING:
    from ackq.delay.claims import ClaimedMessage
    from ackq.delay.claims_client import DelayClaims
    from ackq.delay.client import DelayQueue, PartitionedDelayQueue
    from ackq.delay.client_async import AsyncDelayQueue, AsyncPartitionedDelayQueue
    from ackq.delay.messages import DelayedMessage, DelayEntry, DelayStats
    from ackq.delay.staging_client import DelayStaging
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "claims": "ClaimedMessage",
            "claims_client": "DelayClaims",
            "client": "DelayQueue PartitionedDelayQueue",
            "client_async": "AsyncDelayQueue AsyncPartitionedDelayQueue",
            "messages": "DelayedMessage DelayEntry DelayStats",
            "staging_client": "DelayStaging",
        },
    )

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
