"""A list queue over several Redis nodes: `ShardedQueue` and `AsyncShardedQueue`."""

from ackq.sharded.client import ShardedQueue
from ackq.sharded.client_async import AsyncShardedQueue

__all__ = ["AsyncShardedQueue", "ShardedQueue"]
