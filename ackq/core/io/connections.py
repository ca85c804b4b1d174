"""ackq's own connections to the server of a queue, made like the given client's."""

from __future__ import annotations

import copy
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Self

import redis
import redis.asyncio
from redis.cluster import RedisCluster
from redis.connection import AbstractConnection, Connection, SSLConnection
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, ReadOnlyError, ResponseError
from redis.sentinel import SentinelConnectionPool
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

#: Forks between the first process and this one. Compared before each use of a connection, since
#: asking the system for the process's number would cost a system call each time.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class Connections:
    """Idle connections to one address, for any number of threads and after a fork.

    Simpler than redis-py's pool: no lock (a deque's ends are atomic) and no limit (a blocking
    caller needs its own connection). It checks for a dead peer before each use, as redis-py does.
    """

    def __init__(self, make: Callable[[], AbstractConnection]) -> None:
        self._make = make
        #: Seconds that a connection waits for a reply.
        self.socket_timeout: float = make().socket_timeout or READ_TIMEOUT
        self._idle: deque[AbstractConnection] = deque()
        self._sentinels: Sequence[redis.Redis] = ()
        self._forks = _forks

    @classmethod
    def like(cls, client: redis.Redis) -> Connections:
        """Return connections with the settings of ``client``, and timeouts if it has none."""
        pool = client.connection_pool
        if isinstance(pool, SentinelConnectionPool):
            pool = _bounded_sentinel(pool)
        settings = connection_settings(pool.connection_kwargs)
        connections = cls(lambda: pool.connection_class(**settings))
        if isinstance(pool, SentinelConnectionPool):
            connections._sentinels = pool.sentinel_manager.sentinels
        return connections

    def acquire(self) -> AbstractConnection:
        """Return an open connection, not in use elsewhere, with no unread data."""
        if self._forks != _forks:
            self._idle, self._forks = deque(), _forks
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = None
        if connection is None:
            connection = self._make()
            _connect(connection)
            return connection
        try:
            stale = connection.can_read(0) or (
                time.monotonic() >= connection.next_health_check and not _answers(connection)
            )
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            stale = True
        if stale:
            connection.disconnect()
            _connect(connection)
        return connection

    def release(self, connection: AbstractConnection) -> None:
        """Return a connection to the pool; a disconnected one reconnects at its next use."""
        self._idle.append(connection)

    def close(self) -> None:
        """Disconnect all idle connections."""
        while self._idle:
            self._idle.pop().disconnect()
        for sentinel in self._sentinels:
            sentinel.connection_pool.disconnect()


def _connect(connection: AbstractConnection) -> None:
    # A new connection is not pinged: see _answers.
    interval = connection.health_check_interval
    connection.health_check_interval = 0
    try:
        connection.connect()
    except (redis.ConnectionError, redis.TimeoutError) as error:
        # redis-py's frames and causes add nothing to the error itself.
        hinted = with_hint(error, isinstance(connection, SSLConnection))
        raise hinted.with_traceback(None) from None
    connection.health_check_interval = interval
    connection.next_health_check = time.monotonic() + interval  # type: ignore[assignment]


def _answers(connection: AbstractConnection) -> bool:
    """Return whether a connection that was idle for long still reaches the server."""
    connection.send_command("PING", check_health=False)
    try:
        return str_if_bytes(connection.read_response()) == "PONG"
    except ResponseError:
        return True  # such as MISCONF, from a server that cannot write to its disk


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


def _without_retries(sentinel: redis.Redis) -> redis.Redis:
    """Return a sentinel client without retries: the connection tries another sentinel."""
    pool = sentinel.connection_pool
    settings = with_timeouts(pool.connection_kwargs)
    settings.pop("retry", None)
    return redis.Redis(
        connection_pool=redis.ConnectionPool(
            connection_class=pool.connection_class, max_connections=SENTINEL_CONNECTIONS, **settings
        )
    )


class SingleRoute:
    """The route to a standalone server, or to the primary that Sentinel names.

    If the server is a node of a cluster, its redirections lead to the node that has the key. If
    that node is gone, the first one is asked again. A cluster client knows all nodes, so it does
    not depend on this one.
    """

    def __init__(self, client: redis.Redis, follow: bool = True) -> None:
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

    def connections(self, error: Exception | None) -> Connections:
        """Return where the next attempt goes, after ``error`` ended the last one."""
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            return self._of(error)
        if self._stale:
            self._stale = False
            self._current.close()
        return self._current

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
        self._nodes: dict[tuple[str, int], Connections] = {}
        self._owner: tuple[str, int] | None = None
        self._known: list[tuple[str, int]] = []
        self._stale = False
        self.address = "cluster"
        settings = connection_settings(client.nodes_manager.connection_kwargs)
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

    def connections(self, error: Exception | None) -> Connections:
        """Return where the next attempt goes, after ``error`` ended the last one."""
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            # The node may be too new for the client to know it.
            return self._at(*self._client.nodes_manager.remap_host_port(error.host, error.port))
        if self._stale:
            self._owner = self._find_owner()
            self._stale = False
        if self._owner is None:
            node = self._client.get_node_from_key(self._key)
            self._owner = node.host, node.port
        return self._at(*self._owner)

    def prepare(self, connection: AbstractConnection, error: Exception | None) -> None:
        """Send ASKING if ``error`` redirected to a slot that is being moved."""
        send_asking(connection, error)

    def close(self) -> None:
        """Close every idle connection."""
        for connections in self._nodes.values():
            connections.close()

    def _at(self, host: str, port: int) -> Connections:
        """Return the connections to a node, even one that the client does not know."""
        name = host, port
        if name not in self._nodes:
            pool = self._client.get_redis_connection(self._client.get_nodes()[0]).connection_pool
            settings = redirected(connection_settings(pool.connection_kwargs), host, port)
            self._nodes.setdefault(name, Connections(lambda: pool.connection_class(**settings)))
        return self._nodes[name]

    def _find_owner(self) -> tuple[str, int]:
        """Ask one node after another which one owns the slot; ask the previous owner last."""
        nodes = self._client.get_nodes()
        candidates = dict.fromkeys([*self._known, *((node.host, node.port) for node in nodes)])
        answered = False
        failed: Exception | None = None
        for host, port in sorted(candidates, key=lambda each: each == self._owner):
            try:
                ranges = _ask_for_slots(self._at(host, port))
            except (redis.RedisError, OSError) as error:
                failed = error
                continue
            answered = True
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


def _ask_for_slots(connections: Connections) -> Any:
    """Return the reply to CLUSTER SLOTS of the node at the other end."""
    connection = connections.acquire()
    try:
        connection.send_command("CLUSTER", "SLOTS", check_health=False)
        ranges = connection.read_response(disable_decoding=True)
    except BaseException:
        connection.disconnect()
        raise
    connections.release(connection)
    return ranges


def send_asking(connection: AbstractConnection, error: Exception | None) -> None:
    """Send ASKING if ``error`` redirects to a slot that is being moved."""
    if isinstance(error, AskError) and not isinstance(error, MovedError):
        connection.send_packed_command(connection.pack_command("ASKING"))
        connection.read_response()


class LentRoute(SingleRoute):
    """A route over connections that somebody else closes."""

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


def route_of(client: Any, key: bytes) -> SingleRoute | ClusterRoute:
    """Return the route to ``key``, with connections like the client's.

    Raises:
        ConfigurationError: it is not a blocking client of redis-py.
    """
    check_no_pipeline(client)
    if isinstance(client, RedisCluster):
        return ClusterRoute(client, key)
    if not isinstance(getattr(client, "connection_pool", None), redis.ConnectionPool):
        awaited = isinstance(client, redis.asyncio.Redis | redis.asyncio.RedisCluster)
        raise wrong_client(client, "redis.Redis", "with Async" if awaited else "")
    if isinstance(client, Lender):
        return client.lent.beside(key)
    check_scripts_run(client)
    return SingleRoute(client)
