"""RSMQ, whose deletes are not fenced."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, ClassVar

from ackq.errors import QueueExists
from ackq.rsmq import RSMQ, AsyncRSMQ
from tests.campaign.site import Site

from .rig import Got, Rig, Workload, value

_QUEUE = "mail"


class RSMQRig(Rig):
    """`RSMQ` or `AsyncRSMQ`. A lease is whole seconds, and ends in whole milliseconds."""

    lease = 0.999
    rules: ClassVar[dict[str, Any]] = {"fenced": False}
    verbs: ClassVar[dict[str, int]] = {"ack": 100}

    def __init__(self, site: Site, workload: Workload) -> None:
        super().__init__(site, workload)
        self._rsmq: Any = (
            AsyncRSMQ(site.async_client(), site.name)
            if workload.asynchronous
            else RSMQ(site.client(), site.name)
        )

    def prepare(self) -> None:
        with contextlib.suppress(QueueExists):
            self._rsmq.create_queue(_QUEUE, vt=1)

    async def push(self, entries: list[tuple[str, bytes]], delay: float) -> dict[str, Any]:
        await value(self._rsmq.send_messages(_QUEUE, [body for _, body in entries]))
        return {}

    async def take(self, n: int, done: Sequence[Any]) -> tuple[list[Got], dict[str, Any]]:
        found = await value(self._rsmq.receive_messages(_QUEUE, n, timeout=0.1))
        return [Got(m.body, m.rc, None, m) for m in found], {}

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        ids = [each.id for each in handles]
        deleted: int = await value(self._rsmq.delete_messages(_QUEUE, ids))
        return deleted

    async def stored(self) -> int:
        stored: int = (await value(self._rsmq.get_queue_attributes(_QUEUE))).msgs
        return stored

    async def close(self) -> None:
        await value(self._rsmq.aclose() if self.workload.asynchronous else self._rsmq.close())
