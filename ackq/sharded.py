"""A list queue over several Redis nodes: `ShardedQueue` and `AsyncShardedQueue`."""

from ackq.aio.sharded import AsyncShardedQueue
from ackq.sync.sharded import ShardedQueue

__all__ = ["AsyncShardedQueue", "ShardedQueue"]
