"""A look at a queue: what is ready, in flight, delayed or dead, without taking any of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ackq.message import DeadLetter, PeekedMessage
from ackq.spark.columns import columns_of
from ackq.spark.options import Reading
from ackq.spark.retry import patiently
from ackq.spark.rows import Rows
from ackq.sync.queue import Queue

#: Messages that one call brings at most.
SLICE = 500


@dataclass(frozen=True)
class Listed(InputPartition):
    """One list of the queue, and how many of its messages are looked at: those of the plan."""

    queue: str
    rows: int


class Look(DataSourceReader):
    """Shows one list after the other, oldest first.

    It takes nothing, so Spark may run it as often as it likes. It is no snapshot: what is pushed,
    taken or settled while it runs may be missing or be there twice.
    """

    def __init__(self, reading: Reading, schema: StructType) -> None:
        self._reading = reading
        self._columns = columns_of(reading, schema)
        self._state = reading.state or "ready"

    def partitions(self) -> Sequence[InputPartition]:
        """Return the lists."""
        return [Listed(name, self._count(name)) for name in self._reading.place.lists]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Look at one list, on an executor."""
        assert isinstance(partition, Listed)
        rows = Rows(self._columns, self._reading.parsing)
        position = 0
        for seen in self._slices(partition):
            yield rows.batch(
                [each.body for each in seen],
                self._facts(partition.queue, position, seen),
                f"queue {partition.queue!r}, {self._state}, from position {position}",
            )
            position += len(seen)

    def _count(self, name: str) -> int:
        with Queue(self._reading.connection.client(), name) as queue:
            return int(getattr(patiently(queue.stats, self._reading.retry_timeout), self._state))

    def _slices(self, listed: Listed) -> Iterator[Sequence[PeekedMessage | DeadLetter]]:
        with Queue(self._reading.connection.client(), listed.queue) as queue:
            if self._state == "dead":
                yield from self._dead(queue, listed.rows)
                return
            at = 0
            while at < listed.rows:
                size = min(self._reading.fetch_size or SLICE, listed.rows - at)
                seen = self._try(lambda at=at, size=size: queue.peek(size, self._state, skip=at))
                if not seen:
                    return
                yield seen
                at += len(seen)

    def _dead(self, queue: Queue, rows: int) -> Iterator[Sequence[DeadLetter]]:
        letters = self._try(lambda: queue.dead_letters(rows)) if rows else []
        for first in range(0, len(letters), SLICE):
            yield letters[first : first + SLICE]

    def _facts(
        self, queue: str, position: int, seen: Sequence[PeekedMessage | DeadLetter]
    ) -> dict[str, Any]:
        letters = [each for each in seen if isinstance(each, DeadLetter)]
        moments = [each.died_at if isinstance(each, DeadLetter) else each.at for each in seen]
        return {
            "queue": queue,
            "state": self._state,
            "position": pa.array(range(position, position + len(seen)), pa.int64()),
            "receive_count": pa.array([each.receive_count for each in seen], pa.int64()),
            "at": pa.array(
                [None if at is None else round(at * 1_000_000) for at in moments], pa.int64()
            ).cast(pa.timestamp("us", "UTC")),
            "reason": pa.array([each.reason for each in letters], pa.string()) if letters else None,
            "entry": pa.array([each.entry for each in letters], pa.string()) if letters else None,
        }

    def _try(self, call: Any) -> Any:
        return patiently(call, self._reading.retry_timeout)
