"""The sharded queue."""

from collections.abc import Sequence
from typing import Any, ClassVar

from .listed import GroupedListQueue, ListQueue
from .product import value


class ShardedQueue(ListQueue):
    """`ShardedQueue` or `AsyncShardedQueue`: between shards there is no order."""

    rules: ClassVar[dict[str, Any]] = {}

    async def _parts(self) -> Sequence[Any]:
        parts: Sequence[Any] = await value(self.queue.shards())
        return parts


class GroupedShardedQueue(GroupedListQueue):
    """`ShardedQueue` or `AsyncShardedQueue` with groups: each has an order of its own."""

    rules: ClassVar[dict[str, Any]] = {"group_in_flight": 1}
    groups = 8

    async def _parts(self) -> Sequence[Any]:
        parts: Sequence[Any] = await value(self.queue.shards())
        return parts
