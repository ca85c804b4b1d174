"""The topic, with consumer ids that several readers share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

from ackq.topic import AsyncTopic, Topic
from tests.campaign.site import Site

from .rig import LEASE, Got, Rig, Workload, value

READERS = ("one", "other")


class TopicRig(Rig):
    """`Topic` or `AsyncTopic`, at least once.

    A batch is settled whole, so its messages share a handle.
    """

    rules: ClassVar[dict[str, Any]] = {"readers": READERS}
    verbs: ClassVar[dict[str, int]] = {"ack": 90, "release": 10}

    def __init__(self, site: Site, workload: Workload) -> None:
        super().__init__(site, workload)
        self._topic: Any = (
            AsyncTopic(site.async_client(), site.name, visibility_timeout=LEASE)
            if workload.asynchronous
            else Topic(site.client(), site.name, visibility_timeout=LEASE)
        )
        self._turns = itertools.cycle(READERS)

    def prepare(self) -> None:
        for reader in READERS:
            self._topic.subscribe(reader)

    async def push(self, entries: list[tuple[str, bytes]], delay: float) -> dict[str, Any]:
        bodies = [body for _, body in entries]
        confirm = self.settings.get("confirm")
        return {"index": (await value(self._topic.publish_many(bodies, confirm=confirm)))[0]}

    async def take(self, n: int, done: Sequence[Any]) -> tuple[list[Got], dict[str, Any]]:
        reader = next(self._turns)
        batch = await value(self._topic.consume(reader, n, timeout=0.05))
        got = [Got(each.body, None, batch.lease_expires_at, batch) for each in batch]
        return got, {"reader": reader, "index": batch.first}

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        batch, size = handles[0], len(handles)
        name = "commit" if verb == "ack" else verb
        return size * int(await value(getattr(self._topic, name)(batch)))

    async def stored(self) -> int:
        lags: list[int] = [await value(self._topic.lag(reader)) for reader in READERS]
        return max(lags)

    async def close(self) -> None:
        await value(self._topic.aclose() if self.workload.asynchronous else self._topic.close())
