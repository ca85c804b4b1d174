"""Process the messages that are ready now, without Structured Streaming."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspark import InheritableThread
from pyspark.sql import SparkSession
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from ackq.errors import ConfigurationError
from ackq.spark.offsets import Offset
from ackq.spark.pipeline.callback import BatchCallback
from ackq.spark.pipeline.checkpoint_log import CheckpointLog
from ackq.spark.pipeline.query import Query

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
    from pyspark.sql.types import StructType

#: Seconds between two attempts to cancel the jobs of a batch, and how many there are.
_CANCEL_INTERVAL, _CANCEL_ATTEMPTS = 0.5, 60


class _Reads(Protocol):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]: ...


class _Read:
    """Reads the partitions with given numbers. Pickled into tasks."""

    def __init__(self, reader: _Reads, partitions: Sequence[InputPartition]) -> None:
        self._reader, self._partitions = reader, partitions

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._reader.read(self._partitions[number])


class BacklogQuery(Query):
    """Calls a source and a callback in the order in which Structured Streaming does.

    That saves the processes that Spark starts for a source and for each plan of a query. The
    checkpoint is Spark's, so runs with and without Structured Streaming may follow each other.
    """

    def __init__(
        self,
        spark: SparkSession,
        reader: Any,
        schema: StructType,
        log: CheckpointLog,
        prepare: Callable[[DataFrame], DataFrame],
        callback: BatchCallback,
    ) -> None:
        """Start.

        Args:
            spark: the session. The query runs in a copy of it.
            reader: the source, which supports the trigger AvailableNow.
            schema: the columns that it reads.
            log: the checkpoint.
            prepare: what to do with the rows of the source before the callback gets them.
            callback: writes the batches.
        """
        copy = spark._jsparkSession.cloneSession()
        self._spark = SparkSession(spark.sparkContext, copy)
        self._reader: DataSourceStreamReader = reader
        self._schema, self._prepare = schema, prepare
        self._log, self._callback = log, callback
        self._committed = log.committed()
        self._reached: Offset | None = None
        self._error: BaseException | None = None
        self._id = log.query_id()
        callback.start(self._id)
        self._thread: threading.Thread = InheritableThread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_active(self) -> bool:
        return self._thread.is_alive()

    @property
    def error(self) -> BaseException | None:
        return self._error

    @property
    def committed(self) -> int:
        return self._committed

    @property
    def reached(self) -> Offset | None:
        return self._reached

    def stop(self) -> None:
        self._callback.stopping = True
        # A batch runs several jobs, and may be between two of them.
        for _ in range(_CANCEL_ATTEMPTS):
            if not self._thread.is_alive():
                break
            self._spark.sparkContext.cancelJobGroup(self._id)
            self._thread.join(_CANCEL_INTERVAL)
        self._reader.stop()

    def _run(self) -> None:
        try:
            self._activate()
            self._spark.sparkContext.setJobGroup(self._id, "ackq pipeline", True)
            self._reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
            while not self._callback.stopping and self._step():
                pass
        except BaseException as error:
            self._error = error

    def _activate(self) -> None:
        """Make the copy the active session of this thread, where Spark looks for formats."""
        java: Any = self._spark._jvm
        sessions = java.org.apache.spark.sql.classic.SparkSession
        sessions.setActiveSession(self._spark._jsparkSession)

    def _step(self) -> bool:
        """Process the next batch; return whether there was one."""
        batch = self._committed + 1
        before = self._before(batch)
        end = self._log.planned(batch)
        if end is None:
            end = self._reader.latestOffset(before, self._reader.getDefaultReadLimit())
            if end == before:
                return False
            self._log.plan(batch, end)
            if batch:
                self._reader.commit(before)
        self._callback(self._prepare(self._rows(before, end)), batch)
        self._log.commit(batch)
        self._committed, self._reached = batch, end
        return True

    def _before(self, batch: int) -> Offset:
        if not batch:
            return self._reader.initialOffset()
        before = self._log.planned(batch - 1)
        if before is None:
            raise ConfigurationError(
                f"the checkpoint has committed batch {batch - 1}, but lacks its file in offsets:"
                " restore the file, or use a new checkpoint"
            )
        return before

    def _rows(self, before: Offset, end: Offset) -> DataFrame:
        from pyspark.sql import DataFrame

        parts = self._reader.partitions(before, end)
        numbers: Any = self._spark.range(0, len(parts), 1, max(1, len(parts)))
        # DataFrame.mapInArrow needs pandas, though nothing here does.
        read = UserDefinedFunction(
            _Read(self._reader, parts),
            returnType=self._schema,
            evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
        )
        rows = numbers._jdf.mapInArrow(read(*numbers.columns)._jc, False, None)
        return DataFrame(rows, self._spark)
