"""The sharded queue."""

from __future__ import annotations

from typing import Any, ClassVar

from ackq.sharded import AsyncShardedQueue, ShardedQueue

from .listed import ListRig
from .rig import LEASE, value

SHARDS = 4


class ShardedRig(ListRig):
    """`ShardedQueue` or `AsyncShardedQueue`: between shards there is no order."""

    rules: ClassVar[dict[str, Any]] = {}
    #: An ack beside a take from another shard is sent again if its reply was lost.
    fused = "gone"
    #: As ``ackq sharded shards`` prints them; the release before cannot compute them.
    tags = ("{jobs}", "{jobs:0.1}", "{jobs:1.3}", "{jobs:2.1}", "{jobs:3.3}")

    def _open(self) -> Any:
        name = self.site.name.strip("{}")
        settings: dict[str, Any] = {"visibility_timeout": LEASE, "session_timeout": 1.0}
        if self.workload.asynchronous:
            return AsyncShardedQueue(self.site.async_client(), name, SHARDS, **settings)
        return ShardedQueue(self.site.client(), name, SHARDS, **settings)

    async def left(self) -> dict[str, Any]:
        shards = await value(self.queue.shards())
        audits = [await value(shard.audit()) for shard in shards]
        findings = [str(each) for audit in audits for each in audit.findings]
        return {"dead": [], "findings": findings, "keys": []}
