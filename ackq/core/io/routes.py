# Written by tools/blocking.py: edit routes_async.py instead, then run make clients.
"""Where the requests of a queue go: to a server, or to a node of a cluster."""

from __future__ import annotations

import copy
from typing import Any, Self

import redis
from redis.cluster import RedisCluster
from redis.connection import AbstractConnection, Connection
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, ReadOnlyError

from ackq.core.io.connections import (
    Connections,
    ask_for_slots,
    kind_of_nodes,
    send_asking,
)
from ackq.core.io.settings import (
    address_of,
    check_no_pipeline,
    check_scripts_run,
    connection_settings,
    nodes_in,
    owner_of,
    redirected,
    url_of,
    wrong_client,
)
from ackq.core.retries import MAY_HAVE_MOVED


class SingleRoute:
    """The route to a standalone server, or to the primary that Sentinel names.

    If the server is a node of a cluster, its redirections lead to the node that has the key. If
    that node is gone, the first one is asked again. A cluster client knows all nodes, so it does
    not depend on this one.
    """

    def __init__(self, client: redis.Redis, follow: bool = True) -> None:
        self._pool = client.connection_pool
        self._home = Connections.like(client)
        #: Where the next request goes, unless an error redirects it. None: ask `connections`.
        self.at: Connections | None = self._home
        self._elsewhere: dict[tuple[str, int], Connections] = {}
        self._follow = follow
        self.address = address_of(client.connection_pool.connection_kwargs)
        self.url = url_of(client.connection_pool)
        self.socket_timeout = self._home.socket_timeout

    def beside(self, key: bytes) -> Self:
        """Return the route to another key, over the same connections."""
        other = copy.copy(self)
        other.at = self._home
        return other

    def note(self, error: Exception) -> None:
        """Learn from ``error`` where the key may be now."""
        if isinstance(error, MovedError):
            self.at = self._of(error)
        elif isinstance(error, MAY_HAVE_MOVED):
            # The primary behind this address may have changed: resolve it again.
            self.at = None if isinstance(error, ReadOnlyError) else self._home

    def connections(self, error: Exception | None) -> Connections:
        """Return where the next attempt goes, after ``error`` ended the last one."""
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            return self._of(error)
        if self.at is None:
            self._home.close()
            self.at = self._home
        return self.at

    def prepare(self, connection: AbstractConnection, error: Exception | None) -> None:
        """Send ASKING if ``error`` redirected to a slot that is being moved."""
        send_asking(connection, error)

    def close(self) -> None:
        """Close every idle connection."""
        for connections in (self._home, *self._elsewhere.values()):
            connections.close()

    def _of(self, error: AskError) -> Connections:
        """Return the connections to where a redirection points."""
        settings = connection_settings(self._pool.connection_kwargs)
        if not self._follow or not settings.keys() & {"host", "path"}:
            return self._home
        if error.node_addr not in self._elsewhere:
            kind = self._pool.connection_class
            if "path" in settings:
                kind = Connection
            settings = redirected(settings, error.host, error.port)
            self._elsewhere[error.node_addr] = Connections(lambda: kind(**settings))
        return self._elsewhere[error.node_addr]


class ClusterRoute:
    """The route to the node that owns the queue's slot, through redirections.

    After an error, the nodes are asked for the owner over ackq's own connections, since the
    client's may have no timeout.
    """

    def __init__(self, client: RedisCluster, key: bytes) -> None:
        self._client = client
        self._key = key
        #: Where the next request goes, unless an error redirects it. None: ask `connections`.
        self.at: Connections | None = None
        self._nodes: dict[tuple[str, int], Connections] = {}
        self._owner: tuple[str, int] | None = None
        self._known: list[tuple[str, int]] = []
        #: The latest reply to CLUSTER SLOTS, for all routes made with `beside`.
        self._slots: list[Any] = []
        self._stale = False
        self.address = "cluster"
        self.url: str | None = None
        settings = connection_settings(client.nodes_manager.connection_kwargs)
        self.socket_timeout: float = settings["socket_timeout"]

    def beside(self, key: bytes) -> Self:
        """Return the route to another key, over the same connections."""
        other = copy.copy(self)
        other.at, other._key, other._owner, other._stale = None, key, None, False
        return other

    def note(self, error: Exception) -> None:
        """Learn from ``error`` where the key may be now."""
        if isinstance(error, MovedError) and error.host:
            # The former owner knows; other nodes may hear of it later.
            self._owner = self._client.nodes_manager.remap_host_port(error.host, error.port)
            self.at = None
        elif isinstance(error, MAY_HAVE_MOVED):
            # The owner may have changed or be gone: ask the others.
            self.at, self._stale = None, True

    def connections(self, error: Exception | None) -> Connections:
        """Return where the next attempt goes, after ``error`` ended the last one."""
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            # The node may be too new for the client to know it.
            return self._of(*self._client.nodes_manager.remap_host_port(error.host, error.port))
        if self._owner is None and not self._stale:
            # If it is no longer there, the node redirects.
            self._owner = self._known_owner()
        if self._stale or self._owner is None:
            self._owner = self._find_owner()
            self._stale = False
        opened = self.at = self._of(*self._owner)
        return opened

    def prepare(self, connection: AbstractConnection, error: Exception | None) -> None:
        """Send ASKING if ``error`` redirected to a slot that is being moved."""
        send_asking(connection, error)

    def close(self) -> None:
        """Close every idle connection."""
        for connections in self._nodes.values():
            connections.close()

    def _of(self, host: str, port: int) -> Connections:
        """Return the connections to a node, even one that the client does not know."""
        name = host, port
        if name not in self._nodes:
            kind, settings = kind_of_nodes(self._client)
            settings = redirected(settings, host, port)
            self._nodes.setdefault(name, Connections(lambda: kind(**settings)))
        return self._nodes[name]

    def _known_owner(self) -> tuple[str, int] | None:
        """Return the owner of the slot as ackq or the client last heard of it, if they did."""
        manager, slot = self._client.nodes_manager, key_slot(self._key)
        known = owner_of(slot, self._slots)
        if known is not None and known[0]:
            return manager.remap_host_port(*known)
        nodes = manager.slots_cache.get(slot)
        return (nodes[0].host, int(nodes[0].port)) if nodes else None

    def _find_owner(self) -> tuple[str, int]:
        """Ask one node after another which one owns the slot; ask the previous owner last."""
        manager = self._client.nodes_manager
        nodes = (manager.nodes_cache or manager.startup_nodes).values()
        candidates = dict.fromkeys([*self._known, *((node.host, int(node.port)) for node in nodes)])
        answered = False
        failed: Exception | None = None
        for host, port in sorted(candidates, key=lambda node: node == self._owner):
            try:
                ranges = ask_for_slots(self._of(host, port))
            except (redis.RedisError, OSError) as error:
                failed = error
                continue
            answered = True
            self._slots[:] = ranges
            owner = owner_of(key_slot(self._key), ranges)
            if owner is not None:
                remap = manager.remap_host_port
                self._known = [(host, port), *(remap(*node) for node in nodes_in(ranges))]
                return remap(owner[0] or host, owner[1])
        if not answered:
            raise redis.ConnectionError(
                f"none of {len(candidates)} nodes of the cluster can be reached: {failed}"
            ) from failed
        raise ClusterDownError(f"no node of the cluster serves the slot of {self._key!r}")


def route_of(client: Any, key: bytes) -> SingleRoute | ClusterRoute:
    """Return the route to ``key``, with connections like the client's.

    Raises:
        ConfigurationError: it is not a blocking client of redis-py.
    """
    check_no_pipeline(client)
    if isinstance(client, RedisCluster):
        return ClusterRoute(client, key)
    if not isinstance(getattr(client, "connection_pool", None), redis.ConnectionPool):
        raise wrong_client(client, "redis.Redis")
    if isinstance(lent := getattr(client, "lent", None), SingleRoute):
        return lent.beside(key)  # of a `Lender`
    check_scripts_run(client)
    return SingleRoute(client)
