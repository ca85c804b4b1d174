"""ackq's own connections to the server that holds a queue, for one event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection
from redis.exceptions import AskError, ClusterDownError, MovedError, ReadOnlyError

from ackq.protocol.connecting import address_of, connection_settings, redirected
from ackq.protocol.errors import ELSEWHERE


class Connections:
    """Idle connections to one address, for any number of tasks of one event loop.

    A leaner pool than redis-py's: no limit (a caller that blocks needs a connection of its
    own), and the same check for a dead peer before each use.
    """

    def __init__(self, make: Callable[[], AbstractConnection]) -> None:
        self._make = make
        #: Seconds to wait for a reply; None: for ever.
        self.socket_timeout: float | None = make().socket_timeout
        self._idle: deque[AbstractConnection] = deque()

    @classmethod
    def like(cls, client: redis.asyncio.Redis) -> Connections:
        """Return connections with the settings of ``client``."""
        pool = client.connection_pool
        settings = connection_settings(pool.connection_kwargs)
        return cls(lambda: pool.connection_class(**settings))

    async def acquire(self) -> AbstractConnection:
        """Return a connected connection that nobody else uses and that has nothing to read."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._make()
            await self._connect(connection)
            return connection
        # redis-py 8 renamed the method.
        can_read = getattr(connection, "can_read", None) or connection.can_read_destructive
        try:
            stale = not connection.is_connected or await can_read()
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            stale = True
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        if stale:
            await connection.disconnect(nowait=True)
            await self._connect(connection)
        return connection

    async def _connect(self, connection: AbstractConnection) -> None:
        # redis-py sends inside asyncio.wait_for, which before Python 3.12 swallows a cancellation
        # that comes at the wrong moment: here it is noticed, and later the driver keeps the time.
        task = asyncio.current_task()
        cancelled_before = task.cancelling() if task else 0
        connection.socket_timeout = self.socket_timeout
        try:
            await connection.connect()
            if task and task.cancelling() > cancelled_before:
                raise asyncio.CancelledError
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        connection.socket_timeout = None

    def release(self, connection: AbstractConnection) -> None:
        """Give a connection back; a disconnected one connects again at its next use."""
        self._idle.append(connection)

    async def close(self) -> None:
        """Disconnect what is idle."""
        while self._idle:
            await self._idle.pop().disconnect()


class SingleRoute:
    """The way to a standalone server, or to the primary that Sentinel names.

    If the server is a node of a cluster, it leads to the node that has the key: by the
    redirections of this one, which is asked again when that one is gone. A client of the cluster
    knows all nodes, so it does without this one, too.
    """

    def __init__(self, client: redis.asyncio.Redis, follow: bool = True) -> None:
        self._pool = client.connection_pool
        self._home = self._current = Connections.like(client)
        self._elsewhere: dict[tuple[str, int], Connections] = {}
        self._follow = follow
        self._stale = False
        self.address = address_of(client.connection_pool.connection_kwargs)
        self.socket_timeout = self._home.socket_timeout

    def note(self, error: Exception) -> None:
        """Take from ``error`` where the key may be now."""
        if isinstance(error, MovedError):
            self._current = self._of(error)
        elif isinstance(error, ELSEWHERE):
            self._current = self._home
            # The primary behind this address may have changed: resolve it again.
            self._stale = isinstance(error, ReadOnlyError)

    async def connections(self, error: Exception | None) -> Connections:
        """Return where the next attempt goes, after ``error`` ended the last one."""
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            return self._of(error)
        if self._stale:
            self._stale = False
            await self._current.close()
        return self._current

    async def prepare(self, connection: AbstractConnection, error: Exception | None) -> None:
        """Announce a visit that a slot in migration asked for."""
        await announce(connection, error)

    async def close(self) -> None:
        """Close every idle connection."""
        for connections in (self._home, *self._elsewhere.values()):
            await connections.close()

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
    """The way to the node that owns the queue's slot, through redirections."""

    def __init__(self, client: RedisCluster, key: bytes) -> None:
        self._client = client
        self._key = key
        self._nodes: dict[str, Connections] = {}
        self._stale = False
        self.address = "cluster"
        self.socket_timeout: float | None = client.connection_kwargs.get("socket_timeout", 5.0)

    def note(self, error: Exception) -> None:
        """Take from ``error`` where the key may be now."""
        if isinstance(error, ELSEWHERE):
            # The owner may be another now, or gone: ask the others.
            self._stale = True

    async def connections(self, error: Exception | None) -> Connections:
        """Return where the next attempt goes, after ``error`` ended the last one."""
        await self._client.initialize()
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            return self._of(self._importer(error))
        if self._stale:
            self._stale = False
            await self._client.nodes_manager.initialize()
        node = self._client.get_node_from_key(self._key.decode())
        if node is None:
            raise ClusterDownError(f"no node of the cluster serves the slot of {self._key!r}")
        return self._of(node)

    async def prepare(self, connection: AbstractConnection, error: Exception | None) -> None:
        """Announce a visit that a slot in migration asked for."""
        await announce(connection, error)

    async def close(self) -> None:
        """Close every idle connection."""
        for connections in self._nodes.values():
            await connections.close()

    def _importer(self, error: AskError) -> ClusterNode:
        """Return the node that a slot moves to, which may be too new for the client to know it."""
        manager = self._client.nodes_manager
        host, port = manager.remap_host_port(error.host, error.port)
        known = self._client.get_node(host=host, port=port)
        return known or ClusterNode(host, port, **self._client.connection_kwargs)

    def _of(self, node: ClusterNode) -> Connections:
        connections = self._nodes.get(node.name)
        if connections is None:
            settings = connection_settings(node.connection_kwargs)
            settings |= {"host": node.host, "port": node.port}
            connections = Connections(lambda: node.connection_class(**settings))
            self._nodes[node.name] = connections
        return connections


async def announce(connection: AbstractConnection, error: Exception | None) -> None:
    """Say ASKING where ``error`` sends a request to a slot that is being moved."""
    if isinstance(error, AskError) and not isinstance(error, MovedError):
        await connection.send_packed_command(connection.pack_command("ASKING"))
        await connection.read_response()


def route_of(client: Any, key: bytes) -> SingleRoute | ClusterRoute:
    """Return the way to ``key`` through connections made like the client's."""
    return ClusterRoute(client, key) if isinstance(client, RedisCluster) else SingleRoute(client)
