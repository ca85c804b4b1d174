"""ackq's own connections to the server of a queue, for one event loop."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import AbstractConnection, SSLConnection
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import AskError, MovedError, ResponseError
from redis.utils import str_if_bytes

from ackq.core.io.settings import (
    READ_TIMEOUT,
    SENTINEL_CONNECTIONS,
    connection_settings,
    with_hint,
    with_timeouts,
)
from ackq.errors import ConfigurationError

OTHER_LOOP = (
    "this object has open connections of another event loop, such as that of an earlier"
    " asyncio.run. Create it in the coroutine that uses it, with async with, or close it with"
    " aclose() before its loop ends"
)


class Connections:
    """Idle connections to one address, for any number of tasks of one event loop.

    Simpler than redis-py's pool: no limit (a blocking caller needs its own connection). It checks
    for a dead peer before each use, as redis-py does.
    """

    def __init__(self, make: Callable[[], AbstractConnection]) -> None:
        self._make = make
        #: Seconds to wait for a reply.
        self.socket_timeout: float = make().socket_timeout or READ_TIMEOUT
        #: The event loop of the idle connections.
        self._loop: asyncio.AbstractEventLoop | None = None
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
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._idle:
                raise ConfigurationError(OTHER_LOOP)
            self._loop = loop
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
                    loop.time() >= connection.next_health_check
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


def kind_of_nodes(client: RedisCluster) -> tuple[Callable[..., AbstractConnection], dict[str, Any]]:
    """Return the class and the settings of the connections to any node of the client's cluster."""
    node = next(iter(client.nodes_manager.startup_nodes.values()))
    return node.connection_class, connection_settings(node.connection_kwargs)


async def ask_for_slots(connections: Connections) -> Any:
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
