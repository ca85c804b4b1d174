"""The sharded queue."""

from typing import Any, ClassVar

from ackq.sharded import AsyncShardedQueue, ShardedQueue
from tests import products
from tests.campaign.site import Site

from .rig import Rig

SHARDS = 4


class ShardedRig(Rig, products.ShardedQueue):
    """`ShardedQueue` or `AsyncShardedQueue`."""

    delayed = 0.1
    #: How many shards a client asks for; None: as many as there are.
    shards: ClassVar[int | None] = SHARDS
    #: As ``ackq sharded shards`` prints them; the previous release cannot compute them.
    tags = ("{jobs}", "{jobs:0.1}", "{jobs:1.3}", "{jobs:2.1}", "{jobs:3.3}")

    def _open(self) -> Any:
        name = self.site.name.strip("{}")
        make = AsyncShardedQueue if self.workload.asynchronous else ShardedQueue
        settings: dict[str, Any] = {"visibility_timeout": self.lease, "session_timeout": 1.0}
        return make(self._client(), name, self.shards, **settings)


class ResizedRig(ShardedRig):
    """The same, while `resize` changes the number of shards."""

    shards = None

    async def prepare(self) -> None:
        name = self.site.name.strip("{}")
        with self.site.client() as client, ShardedQueue(client, name, SHARDS) as queue:
            queue.shards()


def resize(site: Site, number: int) -> None:
    """Change the number of shards."""
    with site.client() as client, ShardedQueue(client, site.name.strip("{}")) as queue:
        queue.resize(number)
