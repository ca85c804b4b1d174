"""Read a topic as a source. Its indexes are the offsets, so any range can be read again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ackq.core.client import Client
from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.errors import PlaceLost
from ackq.spark import offsets
from ackq.spark.claim_reader import fetch_in_steps
from ackq.spark.columns import Columns, columns_of
from ackq.spark.connection import Connection, retry
from ackq.spark.offsets import Offset, Polling
from ackq.spark.options import Reading
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


T = TypeVar("T")
_LOG = logging.getLogger("ackq.spark")

#: The index that stands for the start set by ``startingOffsets``.
UNRESOLVED = -1


@dataclass(frozen=True)
class Indexes(InputPartition):
    """``rows`` indexes from ``first`` on."""

    first: int
    rows: int
    #: When the batch was planned first, in µs since the epoch; None: the read is not a stream.
    received: int | None = None


class _TopicSource:
    """Base of the stream reader and the batch reader."""

    def __init__(self, reading: Reading, schema: StructType) -> None:
        self._reading = reading
        self._columns = columns_of(reading, schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range, on an executor."""
        assert isinstance(partition, Indexes)
        return read_range(
            self._reading, self._columns, partition.first, partition.rows, partition.received
        )

    def _newest(self) -> int:
        return self._try(topic_of(self._reading.connection, self._reading.target.name).newest)

    def _first(self) -> int:
        """Return the current index for ``startingOffsets``."""
        starting = self._reading.starting
        if isinstance(starting, int):
            return starting
        newest = self._newest()
        if starting == "latest":
            return newest + 1
        oldest = self._try(topic_of(self._reading.connection, self._reading.target.name).oldest)
        return newest + 1 if oldest is None else oldest

    def _ranges(self, first: int, last: int, received: int | None = None) -> list[Indexes]:
        slices = offsets.split(last - first + 1, self._reading)
        return [Indexes(first + at, count, received) for at, count in slices]

    def _try(self, call: Callable[[], T]) -> T:
        return retry(call, self._reading.retry_timeout)


class TopicRange(_TopicSource, DataSourceReader):
    """Reads from ``startingOffsets`` to ``endingOffsets``, resolved when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the range in slices."""
        newest = self._newest()
        ending = self._reading.ending
        last = min(ending, newest) if isinstance(ending, int) else newest
        # If there is no partition, Spark adds one itself.
        return self._ranges(self._first(), last) or [Indexes(1, 0)]


class TopicStream(_TopicSource, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a topic.

    Guarantee: each index once per checkpoint. An offset contains the first and last index of its
    batch, so a replay reads the same batch.
    """

    def __init__(self, reading: Reading, schema: StructType) -> None:
        super().__init__(reading, schema)
        self._last_available: int | None = None
        self._polling = Polling(reading)

    def _newest(self) -> int:
        # Otherwise a topic that only Spark reads would never show the rows of a dead writer.
        self._try(bodies_of(self._reading.connection, self._reading.target.name).finish_commits)
        return super()._newest()

    def initialOffset(self) -> Offset:
        """Return the initial offset of a new query; its first batch resolves and fixes it."""
        return offsets.make(self._reading.source, first=UNRESOLVED, index=UNRESOLVED)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit from ``maxMessagesPerTrigger``."""
        return ReadMaxRows(self._reading.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the newest index; the query reads no further."""
        self._last_available = self._newest()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the last index of the next batch."""
        _, before = offsets.read(start, self._reading.source, "first", "index")
        first = self._first() if before == UNRESOLVED else before + 1
        self._polling.wait()
        newest = self._newest()
        self._polling.note(found=False)
        if newest < first - 1 and before != UNRESOLVED:
            first, newest = self._restart_after(before, newest)
        last = newest if self._last_available is None else min(newest, self._last_available)
        if isinstance(limit, ReadMaxRows):
            last = min(last, first + limit.max_rows - 1)
        if last >= first and not self._too_few(last + 1 - first):
            self._polling.note(found=True)
            last = self._within_bytes(first, last)
            source = self._reading.source
            return offsets.make(source, first=first, index=last, received=offsets.now())
        if before == UNRESOLVED and self._reading.starting == "latest":
            # Return an empty batch, so that messages published from now on are not skipped if
            # the query dies before its first batch.
            return offsets.make(self._reading.source, first=first, index=first - 1)
        return start

    def reportLatestOffset(self) -> Offset | None:
        """Return the newest index, for the progress of the query."""
        return offsets.make(self._reading.source, index=self._newest())

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the slices of the batch in offset ``end``."""
        if start == end:
            return []
        first, last = offsets.read(end, self._reading.source, "first", "index")
        return self._ranges(first, last, end.get("received"))

    def _too_few(self, messages: int) -> bool:
        """Return whether to wait for more messages. With AvailableNow, no more are expected."""
        may_wait = self._last_available is None and self._polling.may_wait()
        return may_wait and messages < self._reading.min_messages

    def _within_bytes(self, first: int, last: int) -> int:
        """Return the index at which a batch from ``first`` to ``last`` is full."""
        most, name = self._reading.max_bytes, self._reading.target.name
        if most is None:
            return last
        bodies = bodies_of(self._reading.connection, name)
        return self._try(lambda: bodies.full_at(first, last, most))

    def _restart_after(self, before: int, newest: int) -> tuple[int, int]:
        lost = (
            f"topic {self._reading.target.name!r}: the query has read up to index {before}, but the"
            f" newest is {newest}: the topic was deleted and created again, or Redis lost messages"
        )
        if self._reading.fail_on_data_loss:
            raise PlaceLost(
                f"{lost}. Set failOnDataLoss=false to read the new topic from its beginning",
                first=newest + 1,
                last=before,
            )
        _LOG.warning(
            "%s. failOnDataLoss is false, so the new topic is read from its beginning", lost
        )
        return 1, newest
