"""How many messages a pipeline has not begun with."""

from __future__ import annotations

import time
from contextlib import suppress

import redis

from ackq.spark import offsets
from ackq.spark.offsets import Offset
from ackq.spark.options import Reading
from ackq.spark.topic_reader import topic_of
from ackq.sync.queue import Queue

#: Seconds between two counts.
EVERY = 1.0


class Lag:
    """Counts what waits in a source, once a second at most."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._queues: list[Queue] = []
        if reading.place.kind == "queue":
            client = reading.connection.client()
            self._queues = [Queue(client, name) for name in reading.place.lists]
        self._counted_at = float("-inf")
        self._count: int | None = None

    def count(self, reached: Offset | None) -> int | None:
        """Return how many there are; None where it cannot be told.

        Args:
            reached: the offset up to which the query is done; None: none yet.
        """
        if time.monotonic() - self._counted_at >= EVERY:
            self._count = None
            with suppress(redis.RedisError, OSError):
                self._count = self._ready() if self._queues else self._behind(reached)
            self._counted_at = time.monotonic()
        return self._count

    def reach(self) -> None:
        """Raise what redis-py raises where the server cannot be reached."""
        if self._queues:
            self._ready()
        else:
            topic_of(self._reading.connection, self._reading.place.name).newest()

    def close(self) -> None:
        """Close the connections."""
        for each in self._queues:
            each.close()

    def _ready(self) -> int:
        return sum(each.stats().ready for each in self._queues)

    def _behind(self, reached: Offset | None) -> int | None:
        if reached is None:
            return None
        (index,) = offsets.read(reached, self._reading.source, "index")
        newest = topic_of(self._reading.connection, self._reading.place.name).newest()
        return max(0, newest - max(0, index))
