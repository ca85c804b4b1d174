"""The list queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import ackq
from ackq import DeadLetter
from tests.campaign.site import Site

from .rig import LEASE, WATCH, Got, Rig, Workload, totals_left, value

#: Keys that exist only while they hold messages, or say something about them.
_TRANSIENT = ("", "BACKUP", "CONTEXT", "HANDOFF", "RECEIVES", "EXTENDED", "DELAYED")


class ListRig(Rig):
    """`Queue` or `AsyncQueue`."""

    rules: ClassVar[dict[str, Any]] = {"order": True, "totals": True}
    delayed = 0.1

    def __init__(self, site: Site, workload: Workload) -> None:
        super().__init__(site, workload)
        self.queue: Any = self._open()

    def _open(self) -> Any:
        settings: dict[str, Any] = {
            "visibility_timeout": LEASE,
            "max_receives": self.settings.get("max_receives"),
        }
        if self.workload.asynchronous:
            return ackq.AsyncQueue(self.site.async_client(), self.site.name, **settings)
        return ackq.Queue(self.site.client(), self.site.name, **settings)

    def prepare(self) -> None:
        if self.rules.get("totals"):
            self.queue.counters(WATCH)

    async def push(self, entries: list[tuple[str, bytes]], delay: float) -> dict[str, Any]:
        bodies = [body for _, body in entries]
        confirm = self.settings.get("confirm")
        if len(bodies) == 1:
            await value(self.queue.push(bodies[0], delay=delay or None, confirm=confirm))
        else:
            await value(self.queue.push_many(bodies, delay=delay or None, confirm=confirm))
        return {}

    async def take(self, n: int, done: Sequence[Any]) -> tuple[list[Got], dict[str, Any]]:
        found = await value(self.queue.pop_many(n, timeout=0.1, ack=done))
        return [Got(m.body, m.receive_count, m.receipt / 1e6, m) for m in found], {}

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        settings = {"delay": delay} if verb == "nack" else {}
        settled: int = await value(getattr(self.queue, verb)(*handles, **settings))
        return settled

    async def stored(self) -> int:
        stats = await value(self.queue.stats())
        stored: int = stats.ready + stats.in_flight + stats.delayed
        return stored

    async def left(self) -> dict[str, Any]:
        audit = await value(self.queue.audit())
        dead = await value(self.queue.dead_letters(100_000))
        with self.site.client() as client:
            names = [self.site.name + each for each in _TRANSIENT]
            keys = [each for each in names if client.exists(each)]
        return {
            "dead": [[each.id, each.receive_count] for each in dead],
            "findings": [str(each) for each in audit.findings],
            "keys": keys,
            **(await self._totals(dead)),
        }

    async def _totals(self, dead: Sequence[DeadLetter]) -> dict[str, Any]:
        if not self.rules.get("totals"):
            return {}
        return totals_left(await value(self.queue.counters(WATCH)), dead)

    async def close(self) -> None:
        await value(self.queue.aclose() if self.workload.asynchronous else self.queue.close())
