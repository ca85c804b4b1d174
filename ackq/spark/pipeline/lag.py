"""Count the messages that a pipeline has not processed yet."""

from __future__ import annotations

import time
from contextlib import suppress

import redis

from ackq.delay.client import DelayQueue
from ackq.queue.client import Queue
from ackq.spark import offsets
from ackq.spark.offsets import Offset
from ackq.spark.options import Reading
from ackq.spark.shards import open_queue
from ackq.spark.topic_source import topic_of

#: Seconds between two counts.
COUNT_INTERVAL = 1.0


class Lag:
    """Counts the ready messages of a source and those of the current batch, once a second."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._queues: list[Queue | DelayQueue] = []
        if reading.target.kind != "topic":
            self._queues = [open_queue(reading, name) for name in reading.target.lists]
        self._counted_at = float("-inf")
        self._reached: Offset | None = None
        self._count: int | None = None

    def count(
        self, reached: Offset | None, written: int = 0, *, at_once: bool = False
    ) -> int | None:
        """Return the number of messages; None if it is unknown.

        Args:
            reached: the offset of the last finished batch; None: there is none yet.
            written: the number of messages after it that are written, too. Defaults to 0.
            at_once: count now, instead of returning a count that is up to a second old.
        """
        is_old = time.monotonic() - self._counted_at >= COUNT_INTERVAL
        if at_once or is_old or reached != self._reached:
            self._count = None
            with suppress(redis.RedisError, OSError):
                self._count = self._in_queues(reached) if self._queues else self._behind(reached)
            self._counted_at, self._reached = time.monotonic(), reached
        return None if self._count is None else max(0, self._count - written)

    def check_connection(self) -> None:
        """Check that Redis can be reached.

        Raises:
            redis.ConnectionError: it cannot be reached.
        """
        if self._queues:
            self._ready()
        else:
            topic_of(self._reading.connection, self._reading.target.name).newest()

    def close(self) -> None:
        """Close the connections."""
        for queue in self._queues:
            queue.close()

    def _ready(self) -> int:
        return sum(queue.stats().ready for queue in self._queues)

    def _in_queues(self, reached: Offset | None) -> int:
        done = offsets.read(reached, self._reading.source, "batch")[0] if reached else 0
        ready = self._ready()
        # Messages claimed since `_ready` are counted twice, which is better than not at all.
        return ready + sum(
            claim.rows
            for queue in self._queues
            for claim in queue.claims()
            if claim.group == self._reading.group
            and claim.batch > done
            and claim.lease_ends_in is not None
            and claim.lease_ends_in > 0
        )

    def _behind(self, reached: Offset | None) -> int | None:
        if reached is None:
            return None
        (index,) = offsets.read(reached, self._reading.source, "index")
        newest = topic_of(self._reading.connection, self._reading.target.name).newest()
        return max(0, newest - max(0, index))
