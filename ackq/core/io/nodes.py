# Written by tools/blocking.py: edit nodes_async.py instead, then run make clients.
"""The nodes of a cluster, blocking."""

from __future__ import annotations

import redis
from redis.connection import Connection
from redis.exceptions import ResponseError

from ackq.core.io.settings import connection_settings, redirected


def nodes_of(client: redis.Redis, *, replicas: bool = False) -> list[redis.Redis]:
    """Return a client for each primary of the cluster.

    If the server is not in a cluster, or the user may not run CLUSTER SLOTS, return only
    ``client``.

    Args:
        client: a client of any node.
        replicas: also return a client for each replica. Defaults to False.
    """
    try:
        ranges = client.execute_command("CLUSTER SLOTS")
    except ResponseError:
        return [client]
    last = None if replicas else 3
    addresses = {(text_of(host), int(port)) for slots in ranges for host, port, *_ in slots[2:last]}
    pool = client.connection_pool
    settings = connection_settings(pool.connection_kwargs)
    kind = Connection if "path" in settings else pool.connection_class
    return [
        redis.Redis(
            connection_pool=redis.ConnectionPool(
                connection_class=kind, **redirected(settings, host, port)
            )
        )
        for host, port in sorted(addresses)
    ] or [client]


def text_of(host: bytes | str | None) -> str:
    """Return the name of a host, or an empty text if the node does not know its own name."""
    return host.decode() if isinstance(host, bytes) else host or ""
