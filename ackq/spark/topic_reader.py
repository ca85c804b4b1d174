"""Read a topic by index, without a consumer's position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

import pyarrow as pa

from ackq.core.client import Client
from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.errors import PlaceLost
from ackq.spark.columns import Columns
from ackq.spark.connection import Connection
from ackq.spark.options import Reading
from ackq.spark.partitions import fetch_in_steps
from ackq.spark.rows import Rows
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic import Topic
from ackq.topic.consume import MOVE_ATTEMPTS
from ackq.topic.keys import TopicKeys
from ackq.topic.spec import TopicConfig, TopicSpec
from ackq.topic.staged_rows import move

#: Maximum messages per MGET; each message has its own key.
MAX_KEYS = 1000


class TopicBodies(Client):
    """The stored messages of one topic. Safe to share between threads."""

    def __init__(self, connection: Connection, name: str) -> None:
        super().__init__(connection.client(), name)
        self._connection = connection
        self._keys = TopicKeys.of(name)
        self._spec = TopicSpec(name, self._keys, TopicConfig(), outside=SYSTEM)
        self._unfinished = UnfinishedCommits(name)

    def finish_commits(self) -> None:
        """Publish the rows of commits whose writer died, as a consumer does; see `Topic.consume`.

        Checks once a second, with one command. Errors are logged.
        """
        keys = self._unfinished.keys
        self._run(self._unfinished.move_in(partial(move, self._spec, keys, attempts=MOVE_ATTEMPTS)))

    def read(self, first: int, count: int) -> list[bytes | None]:
        """Return the messages of ``count`` indexes from ``first`` on; None for a missing one."""
        return self._run(self._read(first, count))

    def full_at(self, first: int, last: int, size: int) -> int:
        """Return the first index up to which the messages have ``size`` bytes, or ``last``.

        Cost: one round trip for each thousand messages.
        """
        client = self._connection.client()
        total = 0
        for start in range(first, last + 1, MAX_KEYS):
            with client.pipeline(transaction=False) as pipe:
                for key in self._keys.messages(start - 1, min(MAX_KEYS, last + 1 - start)):
                    pipe.strlen(key)
                for index, length in enumerate(pipe.execute(), start):
                    if (total := total + length) >= size:
                        return index
        return last

    def _read(self, first: int, count: int) -> Operation[list[bytes | None]]:
        bodies: list[bytes | None] = []
        while len(bodies) < count:
            at = first + len(bodies)
            keys = self._keys.messages(at - 1, min(MAX_KEYS, count - len(bodies)))
            bodies += yield Request((b"MGET", *keys), resend=True)
        return bodies


@lru_cache(maxsize=64)
def bodies_of(connection: Connection, name: str) -> TopicBodies:
    """Return the reader of a topic. Cached, so a reused process keeps its connections."""
    return TopicBodies(connection, name)


@lru_cache(maxsize=64)
def topic_of(connection: Connection, name: str) -> Topic:
    """Return the topic, for its newest and oldest index."""
    return Topic(connection.client(), name)


def read_range(
    reading: Reading, columns: Columns, first: int, count: int, received: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``count`` indexes from ``first`` on.

    Raises:
        PlaceLost: some messages are gone, and ``failOnDataLoss`` is set.
    """
    name = reading.target.name
    stored = bodies_of(reading.connection, name)
    rows = Rows(columns, reading.parsing)
    for start, page in fetch_in_steps(reading, first, count, stored.read):
        indexes = [start + at for at, body in enumerate(page) if body is not None]
        bodies = [body for body in page if body is not None]
        if len(bodies) < len(page) and reading.fail_on_data_loss:
            raise _gone(name, start, page)
        yield rows.batch(
            bodies,
            {"topic": name, "offset": pa.array(indexes, pa.int64()), "received": received},
            f"topic {name!r}, from index {start}",
        )


def _gone(name: str, start: int, bodies: Sequence[bytes | None]) -> PlaceLost:
    first = start + next(at for at, body in enumerate(bodies) if body is None)
    return PlaceLost(
        f"topic {name!r}: index {first}, and possibly more, expired or was trimmed before it was"
        " read. Set failOnDataLoss=false to go on without such messages",
        first=first,
        last=start + len(bodies) - 1,
    )
