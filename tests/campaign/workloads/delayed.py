"""The delay queue, plain and partitioned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ackq.delay import DelayEntry, DelayQueue, PartitionedDelayQueue
from tests.campaign.site import Site

from .rig import LEASE, WATCH, Got, Rig, Workload, totals_left

PARTITIONS = 4


class DelayRig(Rig):
    """`DelayQueue`."""

    verbs: ClassVar[dict[str, int]] = {"ack": 80, "nack": 12, "release": 8}
    delayed = 0.5

    def __init__(self, site: Site, workload: Workload) -> None:
        super().__init__(site, workload)
        self.queue: Any = self._open()

    def _open(self) -> DelayQueue | PartitionedDelayQueue:
        return DelayQueue(
            self.site.client(),
            self.site.name,
            visibility_timeout=LEASE,
            max_receives=self.settings.get("max_receives"),
        )

    def prepare(self) -> None:
        self.queue.counters(WATCH)

    async def push(self, entries: list[tuple[str, bytes]], delay: float) -> dict[str, Any]:
        self.queue.push_many([DelayEntry(key, body, delay=delay) for key, body in entries])
        return {}

    async def take(self, n: int, done: Sequence[Any]) -> tuple[list[Got], dict[str, Any]]:
        found = self.queue.take(n, timeout=0.1)
        return [Got(m.body, m.receive_count, m.receipt / 1e6, m) for m in found], {}

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        settings = {"delay": delay} if verb == "nack" else {}
        name = "delete" if verb == "ack" else verb
        settled: int = getattr(self.queue, name)(*handles, **settings)
        return settled

    async def stored(self) -> int:
        stats = self.queue.stats()
        stored: int = stats.ready + stats.in_flight + stats.delayed
        return stored

    async def left(self) -> dict[str, Any]:
        dead = self.queue.dead_letters(100_000)
        return {
            **(await super().left()),
            "dead": [[each.id, each.receive_count] for each in dead],
            **totals_left(self.queue.counters(WATCH), dead),
        }

    async def close(self) -> None:
        self.queue.close()


class PartitionedRig(DelayRig):
    """`PartitionedDelayQueue`: the threads of a process are one consumer."""

    rules: ClassVar[dict[str, Any]] = {"sessions": True}

    def _open(self) -> DelayQueue | PartitionedDelayQueue:
        return PartitionedDelayQueue(
            self.site.client(),
            self.site.name,
            PARTITIONS,
            visibility_timeout=LEASE,
            session_timeout=1.0,
        )
