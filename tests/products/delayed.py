"""The delay queue, plain and partitioned."""

from collections.abc import Sequence
from typing import Any, ClassVar

from ackq.delay import DelayEntry

from .listed import ALL, ListQueue
from .product import WATCH, Entries, Got, Noted, Taken, dead_left, totals_left, value


class DelayQueue(ListQueue):
    """`DelayQueue` or `AsyncDelayQueue`."""

    rules: ClassVar[dict[str, Any]] = {"totals": True}
    verbs: ClassVar[dict[str, int]] = {"ack": 80, "nack": 12, "release": 8}
    delayed = 0.5

    async def push(self, entries: Entries, delay: float, is_once: bool) -> Noted:
        delayed = [DelayEntry(key, body, delay=delay) for key, body in entries]
        await value(self.queue.push_many(delayed))
        return {}

    async def take(self, n: int, timeout: float | None, done: Sequence[Any]) -> Taken:
        found = await value(self.queue.take(n, timeout))
        return [Got(m.body, m.receive_count, m.receipt / 1e6, m) for m in found], {}

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        return await super().settle("delete" if verb == "ack" else verb, handles, delay)

    async def left(self) -> dict[str, Any]:
        dead = await value(self.queue.dead_letters(ALL))
        totals = totals_left(await value(self.queue.counters(WATCH)), dead)
        return {**dead_left(dead, [each.id for each in dead]), **totals}


class PartitionedDelayQueue(DelayQueue):
    """`PartitionedDelayQueue` or `AsyncPartitionedDelayQueue`."""

    rules: ClassVar[dict[str, Any]] = {**DelayQueue.rules, "sessions": True}
