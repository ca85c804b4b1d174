"""A client whose connections several objects of ackq share."""

from __future__ import annotations

import redis
from redis.cluster import RedisCluster

from ackq.core.io.routes import SingleRoute


class LentRoute(SingleRoute):
    """A route over connections that its owner closes."""

    def close(self) -> None:
        """Leave the connections open."""


class Lender(redis.Redis):
    """A client whose connections are shared by all objects of ackq that are made with it.

    Otherwise each object has its own. For tools that look at many queues, one after the other.
    """

    def __init__(self, client: redis.Redis) -> None:
        """Lend connections like those of ``client``, which stays open."""
        super().__init__(connection_pool=client.connection_pool)
        self.lent = LentRoute(client)

    def close(self) -> None:
        """Close every idle connection. Objects that are still used open new ones."""
        SingleRoute.close(self.lent)
        super().close()


def lending(client: redis.Redis | RedisCluster) -> redis.Redis | RedisCluster:
    """Return a client that lends its connections; that of a cluster as it is."""
    return client if isinstance(client, RedisCluster) else Lender(client)
