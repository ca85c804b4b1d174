"""Read ready, in-flight, delayed or dead messages of a queue without taking them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ackq.core.inspection_results import DeadLetter, PeekedMessage
from ackq.core.inspection_results import State as LiveState
from ackq.delay.client import DelayQueue
from ackq.delay.peek import FIRST, PAGE, Cursor
from ackq.queue.client import Queue
from ackq.queue.record import recorded
from ackq.spark.columns import columns_of
from ackq.spark.connection import retry
from ackq.spark.options import Reading
from ackq.spark.rows import Rows, text, timestamp

Q = TypeVar("Q", Queue, DelayQueue)

#: Maximum messages per call.
SLICE = 500


@dataclass(frozen=True)
class Listed(InputPartition):
    """A queue, shard or partition, and the number of messages to read, fixed by the plan."""

    queue: str
    rows: int


class _PeekReader(DataSourceReader, Generic[Q]):
    """Reads one list after another, oldest message first.

    It takes no messages, so Spark may run it any number of times. The result is not a snapshot:
    messages that are pushed, taken or settled in the meantime may be missing or appear twice.
    """

    def __init__(self, reading: Reading, schema: StructType) -> None:
        self._reading = reading
        self._columns = columns_of(reading, schema)
        self._state = reading.state or "ready"

    def partitions(self) -> Sequence[InputPartition]:
        """Return the lists."""
        return [Listed(name, self._count(name)) for name in self._reading.target.lists]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one list, on an executor."""
        assert isinstance(partition, Listed)
        rows = Rows(self._columns, self._reading.parsing)
        position = 0
        for seen in self._slices(partition):
            yield rows.batch(
                [each.body for each in seen],
                self._columns_of(partition.queue, position, seen),
                f"{self._reading.target.kind} {partition.queue!r}, {self._state},"
                f" from position {position}",
            )
            position += len(seen)

    @abstractmethod
    def _open(self, name: str) -> Q:
        """Return the queue, shard or partition with this name."""

    @abstractmethod
    def _living(self, queue: Q, state: LiveState, rows: int) -> Iterator[Sequence[PeekedMessage]]:
        """Yield messages that are not dead, slice by slice."""

    def _count(self, name: str) -> int:
        with self._open(name) as queue:
            return int(getattr(self._try(queue.stats), self._state))

    def _slices(self, listed: Listed) -> Iterator[Sequence[PeekedMessage | DeadLetter]]:
        with self._open(listed.queue) as queue:
            if self._state == "dead":
                yield from self._dead(queue, listed.rows)
            else:
                yield from self._living(queue, self._state, listed.rows)

    def _dead(self, queue: Q, rows: int) -> Iterator[Sequence[DeadLetter]]:
        letters = self._try(lambda: queue.dead_letters(rows)) if rows else []
        for first in range(0, len(letters), SLICE):
            yield letters[first : first + SLICE]

    def _columns_of(
        self, queue: str, position: int, seen: Sequence[PeekedMessage | DeadLetter]
    ) -> dict[str, Any]:
        letters = [each for each in seen if isinstance(each, DeadLetter)]
        moments = [each.died_at if isinstance(each, DeadLetter) else each.at for each in seen]
        return {
            "queue": queue,
            "state": self._state,
            "position": pa.array(range(position, position + len(seen)), pa.int64()),
            "receive_count": pa.array([each.receive_count for each in seen], pa.int64()),
            "at": (at := pa.array(map(timestamp, moments), pa.timestamp("us", "UTC"))),
            "ready_time": at,
            "reason": pa.array([letter.reason for letter in letters], pa.string())
            if letters
            else None,
            "entry": pa.array([letter.entry for letter in letters], pa.string())
            if letters
            else None,
        }

    def _try(self, call: Any) -> Any:
        return retry(call, self._reading.retry_timeout)


class QueuePeekReader(_PeekReader[Queue]):
    """Reads a queue, or every shard of one, without taking messages."""

    def _open(self, name: str) -> Queue:
        end = self._reading.target.pop_from
        queue = Queue(self._reading.connection.client(), name, pop_from=end)
        if end == "left":
            return queue
        settings = self._try(lambda: queue.execute(lambda spec: recorded(spec.keys)))
        return queue if "pop_from" in settings else queue.with_config(**settings)

    def _living(
        self, queue: Queue, state: LiveState, rows: int
    ) -> Iterator[Sequence[PeekedMessage]]:
        at = 0
        while at < rows:
            size = min(self._reading.fetch_size or SLICE, rows - at)
            seen = self._try(lambda at=at, size=size: queue.peek(size, state, skip=at))
            if not seen:
                return
            yield seen
            at += len(seen)

    def _dead(self, queue: Queue, rows: int) -> Iterator[Sequence[DeadLetter]]:
        after: str | None = None
        while rows > 0:
            size = min(SLICE, rows)
            letters = self._try(
                lambda size=size, after=after: queue.dead_letters(size, after=after)
            )
            if not letters:
                return
            yield letters
            rows -= len(letters)
            after = letters[-1].entry


class DelayPeekReader(_PeekReader[DelayQueue]):
    """Reads a delay queue, or every partition of one, earliest first, without taking messages."""

    def _open(self, name: str) -> DelayQueue:
        return DelayQueue(self._reading.connection.client(), name)

    def _living(
        self, queue: DelayQueue, state: LiveState, rows: int
    ) -> Iterator[Sequence[PeekedMessage]]:
        size = min(self._reading.fetch_size or SLICE, PAGE)
        cursor: Cursor | None = FIRST
        while cursor is not None and rows > 0:
            seen, cursor = self._try(
                lambda cursor=cursor: queue.peek_page(size, state, cursor=cursor)
            )
            if seen:
                yield seen[:rows]
                rows -= len(seen)

    def _columns_of(
        self, queue: str, position: int, seen: Sequence[PeekedMessage | DeadLetter]
    ) -> dict[str, Any]:
        columns = super()._columns_of(queue, position, seen)
        # Other clients may have used any bytes as a key.
        keys = [each.id.encode(errors="surrogateescape") for each in seen]
        return {**columns, "id": text(pa.array(keys, pa.binary()), keys)}
