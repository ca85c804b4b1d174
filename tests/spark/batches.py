"""A sink that remembers every attempt at every batch."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery

#: Seconds that a test waits for a query; the first one of a cold session takes long.
PATIENCE = 50


class Batches:
    """What a query wrote, by batch; a later attempt replaces an earlier one."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._attempts: dict[int, list[list[Row]]] = {}
        self._fail_after: int | None = None
        self._go = threading.Event()
        self._go.set()
        #: Spark partitions of each attempt that had rows.
        self.partitions: list[int] = []

    def fail_after(self, batch: int) -> None:
        """Let the attempt at this batch number fail, after it was written, once."""
        self._fail_after = batch

    @contextlib.contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        """Hold batches back until the yielded function is called."""
        self._go.clear()
        try:
            yield self._go.set
        finally:
            self._go.set()

    def run(self, frame: DataFrame) -> StreamingQuery:
        """Run a query on the ready messages, to its end."""
        query = self._start(frame, availableNow=True)
        assert query.awaitTermination(PATIENCE), "the query did not end"
        return query

    @contextlib.contextmanager
    def running(self, frame: DataFrame) -> Iterator[StreamingQuery]:
        """Run a query until the end of the block."""
        query = self._start(frame, processingTime="20 milliseconds")
        try:
            yield query
        finally:
            query.stop()

    def rows(self) -> list[Row]:
        """Return all rows, of each batch those of its last attempt, in order."""
        return [row for batch in self.of_each() for row in batch]

    def of_each(self) -> list[list[Row]]:
        """Return the rows of each batch that had some."""
        last = [self._attempts[batch][-1] for batch in sorted(self._attempts)]
        return [batch for batch in last if batch]

    def attempts(self, batch: int) -> list[list[Row]]:
        """Return the rows of every attempt at a batch."""
        return self._attempts[batch]

    def _start(self, frame: DataFrame, **trigger: object) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(self._write)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        return writer.trigger(**trigger).start()  # type: ignore[call-overload, no-any-return]

    def _write(self, frame: DataFrame, batch: int) -> None:
        self._go.wait(PATIENCE)
        rows = frame.collect()
        self._attempts.setdefault(batch, []).append(rows)
        if rows:
            self.partitions.append(frame.rdd.getNumPartitions())
        if self._fail_after == batch:
            self._fail_after = None
            raise RuntimeError("on purpose")
