"""The sharded queue."""

from __future__ import annotations

from typing import Any, ClassVar

from ackq.sharded import AsyncShardedQueue, ShardedQueue
from tests.campaign.site import Site

from .listed import ListRig
from .rig import LEASE, value

SHARDS = 4


class ShardedRig(ListRig):
    """`ShardedQueue` or `AsyncShardedQueue`: between shards there is no order."""

    rules: ClassVar[dict[str, Any]] = {}
    #: An ack beside a take from another shard is sent again if its reply was lost.
    fused = "gone"
    #: How many shards a client asks for; None: as many as there are.
    shards: ClassVar[int | None] = SHARDS
    #: As ``ackq sharded shards`` prints them; the previous release cannot compute them.
    tags = ("{jobs}", "{jobs:0.1}", "{jobs:1.3}", "{jobs:2.1}", "{jobs:3.3}")

    def _open(self) -> Any:
        name = self.site.name.strip("{}")
        settings: dict[str, Any] = {"visibility_timeout": LEASE, "session_timeout": 1.0}
        if self.workload.asynchronous:
            return AsyncShardedQueue(self.site.async_client(), name, self.shards, **settings)
        return ShardedQueue(self.site.client(), name, self.shards, **settings)

    async def left(self) -> dict[str, Any]:
        shards = await value(self.queue.shards())
        audits = [await value(shard.audit()) for shard in shards]
        findings = [str(each) for audit in audits for each in audit.findings]
        return {"dead": [], "findings": findings, "keys": []}


class ResizedRig(ShardedRig):
    """The same, while `resize` changes the number of shards."""

    shards = None

    def prepare(self) -> None:
        name = self.site.name.strip("{}")
        with self.site.client() as client, ShardedQueue(client, name, SHARDS) as queue:
            queue.shards()


def resize(site: Site, number: int) -> None:
    """Change the number of shards."""
    with site.client() as client, ShardedQueue(client, site.name.strip("{}")) as queue:
        queue.resize(number)
