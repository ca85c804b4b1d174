"""The sink: tasks stage their rows, and the driver commits them."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ackq.errors import ConfigurationError, StagingLost
from ackq.spark.retry import retry
from ackq.spark.row_encoder import RowEncoder
from ackq.spark.sink_options import Writing
from ackq.spark.sink_task import Task, staging_of
from ackq.staging.keys import Staged

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ackq.staging.client import StagingBase


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The rows that one task staged, by list and by writer."""

    writer: str
    staged: dict[str, Staged]


class _Sink:
    """Base of the batch and stream writers. Pickled into every task, so it has no secrets."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, overwrite: bool, *, stream: bool
    ) -> None:
        if overwrite:
            raise ConfigurationError(
                "a queue can only be appended to: outputMode('complete') would write all rows"
                " again with each batch. Use 'append' or 'update'"
                if stream
                else "a queue can only be appended to: use .mode('append')"
            )
        writing = Writing.of(options, stream=stream)
        self._schema = schema
        RowEncoder(schema, writing)  # rejects invalid columns here, not in a task
        self._writing = writing.located()

    def _write(
        self, batches: Iterator[pa.RecordBatch], writer: str, batch: int, partition: int
    ) -> Written:
        encoder = RowEncoder(self._schema, self._writing)
        with contextlib.closing(Task(self._writing, writer, batch, partition)) as task:
            try:
                for rows in batches:
                    task.add(rows, encoder)
                task.finish()
            except BaseException:
                task.discard()
                raise
            return Written(writer, task.staged)

    def _commit(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Commit the staged rows of all tasks, one queue, shard or topic after another."""
        written = [each for each in messages if isinstance(each, Written)]
        if len(written) < len(messages):
            raise StagingLost("a task did not report its staged rows. Nothing was committed")
        for name, staging in self._stagings(written):
            tasks = [each.staged[name] for each in written if name in each.staged]
            self._retry(functools.partial(staging.commit, batch, tasks))

    def _abort(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        for _, staging in self._stagings([each for each in messages if isinstance(each, Written)]):
            self._retry(functools.partial(staging.abort, batch))

    def _stagings(self, written: Sequence[Written]) -> Iterator[tuple[str, StagingBase]]:
        """Yield where rows are staged, for each list; nowhere in direct mode."""
        if not written or self._writing.mode == "direct":
            return
        named = sorted({name for each in written for name in each.staged})
        for name in self._writing.target.lists or named:
            with staging_of(self._writing, name, written[0].writer) as staging:
                yield name, staging

    def _retry(self, call: Callable[[], object]) -> None:
        # All operations of a driver can be repeated safely.
        retry(call, self._writing.retry_timeout)


class BatchSink(_Sink, DataSourceArrowWriter):
    """``df.write.format("ackq").mode("append")``.

    Exactly once per ``txnAppId`` and ``txnVersion``. Without them each write is one of its own:
    its rows arrive once, or not at all if it fails before its commit.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Check all options and columns, and whether the queue is sharded."""
        super().__init__(options, schema, overwrite, stream=False)
        self._writer, self._batch = self._writing.transaction or (uuid.uuid4().hex, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage the rows of one task."""
        return self._write(iterator, self._writer, self._batch, _context().partitionId())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible."""
        self._commit(messages, self._batch)
        if self._writing.transaction is None:
            # This name is never used again, so its marker is not needed.
            for _, staging in self._stagings([each for each in messages if each is not None]):  # type: ignore[misc]
                self._retry(staging.forget)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the staged rows."""
        self._abort([Written(self._writer, {}), *messages], self._batch)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """``writeStream.format("ackq")``: exactly once per query and batch, over restarts."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Check all options and columns, and whether the queue is sharded."""
        super().__init__(options, schema, overwrite, stream=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage the rows of one task."""
        context = _context()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise ConfigurationError("Spark did not set the query and batch of this task")
        return self._write(iterator, query, int(batch), context.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the rows of all tasks visible, unless an earlier run of the batch did."""
        self._commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the staged rows."""
        # If no task succeeded, the id of the query is unknown. The staged rows are then deleted by
        # the next run of the batch, or expire.
        self._abort(messages, batchId)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise ConfigurationError("the sink can only write within a Spark task")
    return context
