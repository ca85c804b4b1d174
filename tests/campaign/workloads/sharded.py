"""The sharded queue."""

from __future__ import annotations

from typing import Any, ClassVar

from ackq.sharded import ShardedQueue

from .listed import ListRig
from .rig import LEASE

SHARDS = 4


class ShardedRig(ListRig):
    """`ShardedQueue`: between shards there is no order."""

    rules: ClassVar[dict[str, Any]] = {}

    def _open(self) -> Any:
        return ShardedQueue(
            self.site.client(), self.site.name.strip("{}"), SHARDS, visibility_timeout=LEASE,
            session_timeout=1.0,
        )  # fmt: skip

    async def left(self) -> dict[str, Any]:
        findings = [str(each) for shard in self.queue.shards() for each in shard.audit().findings]
        return {"dead": [], "findings": findings, "keys": []}
