"""ackq's own connections to the server of a queue, made like the given client's."""

from __future__ import annotations

import copy
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import redis
import redis.asyncio
from redis.cluster import RedisCluster
from redis.connection import AbstractConnection, SSLConnection
from redis.exceptions import AskError, MovedError, ResponseError
from redis.sentinel import SentinelConnectionPool
from redis.utils import str_if_bytes

from ackq.core.io.settings import (
    READ_TIMEOUT,
    SENTINEL_CONNECTIONS,
    connection_settings,
    with_hint,
    with_timeouts,
)

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
    manager.sentinels = [_without_retries(sentinel) for sentinel in manager.sentinels]
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


def kind_of_nodes(client: RedisCluster) -> tuple[Callable[..., AbstractConnection], dict[str, Any]]:
    """Return the class and the settings of the connections to any node of the client's cluster."""
    pool = client.get_redis_connection(client.get_nodes()[0]).connection_pool
    return pool.connection_class, connection_settings(pool.connection_kwargs)


def ask_for_slots(connections: Connections) -> Any:
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
