"""The queues behind the lists of one client, over the same connections."""

from __future__ import annotations

from typing import Any

import redis.asyncio

from ackq.config import PopFrom
from ackq.core.io.routes_async import SingleRoute
from ackq.dropin.errors import refused
from ackq.errors import ConfigurationError
from ackq.queue.client_async import AsyncQueue

#: Most lists to remember. A program that makes a list for each reply must not grow for ever.
MAX_QUEUES = 1000


class Queues:
    """Makes a queue for each list."""

    def __init__(
        self, client: redis.asyncio.Redis | redis.asyncio.RedisCluster, settings: dict[str, Any]
    ) -> None:
        self._client, self._settings = client, settings
        self._queues: dict[tuple[str, PopFrom], AsyncQueue] = {}
        self._first: ListQueue | None = None

    def of(self, name: str, end: PopFrom) -> AsyncQueue:
        """Return the queue of list ``name``, popped from ``end``.

        Raises:
            Refused: ackq cannot use the name.
        """
        queue = self._queues.get((name, end))
        if queue is None:
            try:
                settings = self._settings | {"pop_from": end}
                queue = ListQueue(self._client, name, self._first, settings)
            except ConfigurationError as error:
                raise refused(error) from error
            self._first = self._first or queue
            if len(self._queues) >= MAX_QUEUES:
                self._queues.clear()
            queue = self._queues.setdefault((name, end), queue)
        return queue

    async def aclose(self) -> None:
        """Close all connections."""
        for queue in list(self._queues.values()):
            await queue.aclose()


class ListQueue(AsyncQueue):
    """A queue that shares the connections of the first one, except in a cluster."""

    def __init__(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
        name: str,
        first: ListQueue | None,
        settings: dict[str, Any],
    ) -> None:
        super().__init__(client, name, **settings)
        # A list that is only waited for has no key, as with redis-py.
        self._spec.emptiness.shares_looks = False
        if first is not None and isinstance(self._driver.route, SingleRoute):
            self._share_connections_of(first)
