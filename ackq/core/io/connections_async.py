"""ackq's own connections to the server of a queue, for one event loop."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Self

import redis
import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, ReadOnlyError, ResponseError
from redis.utils import str_if_bytes

from ackq.core.io.settings import (
    READ_TIMEOUT,
    SENTINEL_CONNECTIONS,
    address_of,
    check_no_pipeline,
    check_scripts_run,
    connection_settings,
    nodes_in,
    owner_of,
    redirected,
    with_hint,
    with_timeouts,
    wrong_client,
)
from ackq.core.retries import MAY_HAVE_MOVED


class Connections:
    """Idle connections to one address, for any number of tasks of one event loop.

    Simpler than redis-py's pool: no limit (a blocking caller needs its own connection). It checks
    for a dead peer before each use, as redis-py does.
    """

    def __init__(self, make: Callable[[], AbstractConnection]) -> None:
        self._make = make
        #: Seconds to wait for a reply.
        self.socket_timeout: float = make().socket_timeout or READ_TIMEOUT
        self._idle: deque[AbstractConnection] = deque()
        self._sentinels: Sequence[redis.asyncio.Redis] = ()

    @classmethod
    def like(cls, client: redis.asyncio.Redis) -> Connections:
        """Return connections with the settings of ``client``, and timeouts if it has none."""
        pool = client.connection_pool
        if isinstance(pool, SentinelConnectionPool):
            pool = _bounded_sentinel(pool)
        settings = connection_settings(pool.connection_kwargs)
        connections = cls(lambda: pool.connection_class(**settings))
        if isinstance(pool, SentinelConnectionPool):
            connections._sentinels = pool.sentinel_manager.sentinels
        return connections

    async def acquire(self) -> AbstractConnection:
        """Return an open connection, not in use elsewhere, with no unread data."""
        connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._make()
            await self._connect(connection)
            return connection
        # redis-py 8 renamed the method.
        can_read = getattr(connection, "can_read", None) or connection.can_read_destructive
        try:
            stale = (
                not connection.is_connected
                or await can_read()
                or (
                    asyncio.get_running_loop().time() >= connection.next_health_check
                    and not await self._answers(connection)
                )
            )
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            stale = True
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        if stale:
            await connection.disconnect(nowait=True)
            await self._connect(connection)
        return connection

    async def _answers(self, connection: AbstractConnection) -> bool:
        """Return whether a connection that was idle for long still reaches the server."""
        async with asyncio.timeout(self.socket_timeout):
            await connection.send_command("PING", check_health=False)
            try:
                return str_if_bytes(await connection.read_response()) == "PONG"
            except ResponseError:
                return True  # such as MISCONF, from a server that cannot write to its disk

    async def _connect(self, connection: AbstractConnection) -> None:
        # redis-py sends inside asyncio.wait_for, which before Python 3.12 swallows a cancellation
        # that comes at the wrong moment: here it is noticed, and later the driver keeps the time.
        task = asyncio.current_task()
        cancelled_before = task.cancelling() if task else 0
        connection.socket_timeout = self.socket_timeout
        # A new connection is not pinged: see _answers.
        interval = connection.health_check_interval
        connection.health_check_interval = 0
        try:
            await connection.connect()
            if task and task.cancelling() > cancelled_before:
                raise asyncio.CancelledError
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, redis.ConnectionError | redis.TimeoutError):
                # redis-py's frames and causes add nothing to the error itself.
                hinted = with_hint(error, isinstance(connection, SSLConnection))
                raise hinted.with_traceback(None) from None
            raise
        connection.socket_timeout = None
        connection.health_check_interval = interval
        connection.next_health_check = asyncio.get_running_loop().time() + interval

    def release(self, connection: AbstractConnection) -> None:
        """Return a connection to the pool; a disconnected one reconnects at its next use."""
        self._idle.append(connection)

    async def close(self) -> None:
        """Disconnect all idle connections."""
        while self._idle:
            await self._idle.pop().disconnect()
        for sentinel in self._sentinels:
            await sentinel.connection_pool.disconnect()


def _bounded_sentinel(pool: SentinelConnectionPool) -> SentinelConnectionPool:
    """Return a pool that asks the same sentinels for the primary, with timeouts."""
    manager = copy.copy(pool.sentinel_manager)
    manager.sentinels = [_without_retries(each) for each in manager.sentinels]
    settings = dict(pool.connection_kwargs)
    del settings["connection_pool"]
    return SentinelConnectionPool(
        pool.service_name,
        manager,
        connection_class=pool.connection_class,
        is_master=pool.is_master,
        check_connection=pool.check_connection,
        **settings,
    )


def _without_retries(sentinel: redis.asyncio.Redis) -> redis.asyncio.Redis:
    """Return a sentinel client without retries: the connection tries another sentinel."""
    pool = sentinel.connection_pool
    settings = with_timeouts(pool.connection_kwargs)
    settings.pop("retry", None)
    return redis.asyncio.Redis(
        connection_pool=redis.asyncio.ConnectionPool(
            connection_class=pool.connection_class, max_connections=SENTINEL_CONNECTIONS, **settings
        )
    )


class SingleRoute:
    """The route to a standalone server, or to the primary that Sentinel names.

    If the server is a node of a cluster, its redirections lead to the node that has the key. If
    that node is gone, the first one is asked again. A cluster client knows all nodes, so it does
    not depend on this one.
    """

    def __init__(self, client: redis.asyncio.Redis, follow: bool = True) -> None:
        self._pool = client.connection_pool
        self._home = self._current = Connections.like(client)
        self._elsewhere: dict[tuple[str, int], Connections] = {}
        self._follow = follow
        self._stale = False
        self.address = address_of(client.connection_pool.connection_kwargs)
        self.socket_timeout = self._home.socket_timeout

    def beside(self, key: bytes) -> Self:
        """Return the route to another key, over the same connections."""
        other = copy.copy(self)
        other._current, other._stale = self._home, False
        return other

    def note(self, error: Exception) -> None:
        """Learn from ``error`` where the key may be now."""
        if isinstance(error, MovedError):
            self._current = self._of(error)
        elif isinstance(error, MAY_HAVE_MOVED):
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
        """Send ASKING if ``error`` redirected to a slot that is being moved."""
        await send_asking(connection, error)

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
    """The route to the node that owns the queue's slot, through redirections.

    After an error, the nodes are asked for the owner over ackq's own connections, since the
    client's may have no timeout.
    """

    def __init__(self, client: RedisCluster, key: bytes) -> None:
        self._client = client
        self._key = key
        self._nodes: dict[tuple[str, int], Connections] = {}
        self._owner: tuple[str, int] | None = None
        self._known: list[tuple[str, int]] = []
        #: The latest reply to CLUSTER SLOTS, for all routes made with `beside`.
        self._slots: list[Any] = []
        self._stale = False
        self.address = "cluster"
        settings = connection_settings(client.connection_kwargs)
        self.socket_timeout: float = settings["socket_timeout"]

    def beside(self, key: bytes) -> Self:
        """Return the route to another key, over the same connections."""
        other = copy.copy(self)
        other._key, other._owner, other._stale = key, None, False
        return other

    def note(self, error: Exception) -> None:
        """Learn from ``error`` where the key may be now."""
        if isinstance(error, MovedError) and error.host:
            # The former owner knows; other nodes may hear of it later.
            self._owner = self._client.nodes_manager.remap_host_port(error.host, error.port)
        elif isinstance(error, MAY_HAVE_MOVED):
            # The owner may have changed or be gone: ask the others.
            self._stale = True

    async def connections(self, error: Exception | None) -> Connections:
        """Return where the next attempt goes, after ``error`` ended the last one."""
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            # The node may be too new for the client to know it.
            return self._at(*self._client.nodes_manager.remap_host_port(error.host, error.port))
        if self._owner is None and not self._stale:
            # If it is not there any more, the node redirects.
            known = owner_of(key_slot(self._key), self._slots)
            if known is not None and known[0]:
                self._owner = self._client.nodes_manager.remap_host_port(*known)
        if self._stale or self._owner is None:
            self._owner = await self._find_owner()
            self._stale = False
        return self._at(*self._owner)

    async def prepare(self, connection: AbstractConnection, error: Exception | None) -> None:
        """Send ASKING if ``error`` redirected to a slot that is being moved."""
        await send_asking(connection, error)

    async def close(self) -> None:
        """Close every idle connection."""
        for connections in self._nodes.values():
            await connections.close()

    def _at(self, host: str, port: int) -> Connections:
        """Return the connections to a node, even one that the client does not know."""
        name = host, port
        if name not in self._nodes:
            node = next(iter(self._client.nodes_manager.startup_nodes.values()))
            kind, settings = node.connection_class, connection_settings(node.connection_kwargs)
            settings = redirected(settings, host, port)
            self._nodes[name] = Connections(lambda: kind(**settings))
        return self._nodes[name]

    async def _find_owner(self) -> tuple[str, int]:
        """Ask one node after another which one owns the slot; ask the previous owner last."""
        nodes = self._client.nodes_manager.startup_nodes.values()
        first = [(node.host, int(node.port)) for node in nodes]
        candidates = dict.fromkeys([*self._known, *first])
        answered = False
        failed: Exception | None = None
        for host, port in sorted(candidates, key=lambda each: each == self._owner):
            try:
                ranges = await _ask_for_slots(self._at(host, port))
            except (redis.RedisError, OSError) as error:
                failed = error
                continue
            answered = True
            self._slots[:] = ranges
            owner = owner_of(key_slot(self._key), ranges)
            if owner is not None:
                remap = self._client.nodes_manager.remap_host_port
                self._known = [(host, port), *(remap(*each) for each in nodes_in(ranges))]
                return remap(owner[0] or host, owner[1])
        if not answered:
            raise redis.ConnectionError(
                f"none of {len(candidates)} nodes of the cluster can be reached: {failed}"
            ) from failed
        raise ClusterDownError(f"no node of the cluster serves the slot of {self._key!r}")


async def _ask_for_slots(connections: Connections) -> Any:
    """Return the reply to CLUSTER SLOTS of the node at the other end."""
    connection = await connections.acquire()
    try:
        async with asyncio.timeout(connections.socket_timeout):
            await connection.send_command("CLUSTER", "SLOTS", check_health=False)
            ranges = await connection.read_response(disable_decoding=True)
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    connections.release(connection)
    return ranges


async def send_asking(connection: AbstractConnection, error: Exception | None) -> None:
    """Send ASKING if ``error`` redirects to a slot that is being moved."""
    if isinstance(error, AskError) and not isinstance(error, MovedError):
        await connection.send_packed_command(connection.pack_command("ASKING"))
        await connection.read_response()


def route_of(client: Any, key: bytes) -> SingleRoute | ClusterRoute:
    """Return the route to ``key``, with connections like the client's.

    Raises:
        ConfigurationError: it is not an asyncio client of redis-py.
    """
    check_no_pipeline(client)
    if isinstance(client, RedisCluster):
        return ClusterRoute(client, key)
    if not isinstance(getattr(client, "connection_pool", None), redis.asyncio.ConnectionPool):
        blocking = isinstance(client, redis.Redis | redis.RedisCluster)
        raise wrong_client(client, "redis.asyncio.Redis", "without Async" if blocking else "")
    check_scripts_run(client)
    return SingleRoute(client)
