"""The products, as the processes of a campaign and of a simulation use them.

A product says what its clients promise to the checker, and wraps their calls, blocking or not. It
uses public names only: the campaign's workloads also run with the previous release.
"""

from .delayed import DelayQueue, PartitionedDelayQueue
from .listed import GroupedListQueue, ListQueue
from .product import LEASE, WATCH, Got, Product, value
from .rsmq import RSMQ
from .sharded import GroupedShardedQueue, ShardedQueue
from .topics import Topic

__all__ = [
    "LEASE",
    "RSMQ",
    "WATCH",
    "DelayQueue",
    "Got",
    "GroupedListQueue",
    "GroupedShardedQueue",
    "ListQueue",
    "PartitionedDelayQueue",
    "Product",
    "ShardedQueue",
    "Topic",
    "value",
]
