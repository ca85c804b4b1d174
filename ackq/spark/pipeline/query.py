"""The query of a pipeline: Spark's own or one of a backlog, and the base of what it calls back."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from pyspark import InheritableThread
from pyspark.sql import SparkSession
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from ackq.errors import ConfigurationError
from ackq.spark.offsets import Offset
from ackq.spark.pipeline.checkpoint_log import CheckpointLog

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType


class Stopping(Exception):
    """The pipeline is stopping, so the batch is left to the next run."""


class BatchCallback(ABC):
    """Writes micro-batches. Spark may call it again with the same batch."""

    def __init__(self) -> None:
        self._query_id = ""
        self._started = Event()
        #: Set this to stop before the next batch.
        self.stopping = False
        #: Set this before the current batch is aborted from outside.
        self.aborted = False
        #: The current batch, or the last one; -1 before the first.
        self.number = -1
        #: Whether a batch is running.
        self.busy = False
        #: The error that ended the last batch.
        self.error: BaseException | None = None
        #: The section of the sink that is being written; empty: none is.
        self.writing = ""

    def start(self, query_id: str) -> None:
        """Allow batches to run, now that the id of the query is known."""
        self._query_id = query_id
        self._started.set()

    def is_between_batches(self, committed: int) -> bool:
        """Return whether no batch is running, and the last one is in the commit log.

        Args:
            committed: the last batch that is known to be there; -1: none is.
        """
        return not self.busy and committed >= self.number

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write the micro-batch ``number``."""
        self._started.wait()
        self.number, self.busy, self.writing = number, True, ""
        try:
            if self.stopping:
                raise Stopping
            self._write(rows, number)
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.busy = False

    @abstractmethod
    def _write(self, rows: DataFrame, number: int) -> None:
        """Write the micro-batch."""


class Query(Protocol):
    """A query that calls a `BatchCallback` with each micro-batch of a source."""

    @property
    def is_active(self) -> bool:
        """Whether it runs."""

    @property
    def error(self) -> BaseException | None:
        """The error that ended it; None: it runs, or ended without one."""

    @property
    def committed(self) -> int:
        """The number of the last batch that is known to be in the commit log; -1: none."""

    @property
    def reached(self) -> Offset | None:
        """The offset of the last batch that this run finished; None: there is none yet."""

    def stop(self) -> None:
        """Stop, and abort a batch that runs."""


class SparkQuery:
    """A `Query` of Structured Streaming."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    @property
    def is_active(self) -> bool:
        return self._query.isActive

    @property
    def error(self) -> BaseException | None:
        return self._query.exception()

    @property
    def committed(self) -> int:
        last = self._query.lastProgress
        return -1 if last is None else last.batchId

    @property
    def reached(self) -> Offset | None:
        last = self._query.lastProgress
        text = None if last is None else last.sources[0].endOffset
        return json.loads(text) if text else None

    def stop(self) -> None:
        self._query.stop()


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


class BacklogQuery:
    """A `Query` that calls a source and a callback in the order in which Structured Streaming does.

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
        self.committed = log.committed()
        self.reached: Offset | None = None
        self.error: BaseException | None = None
        self._id = log.query_id()
        callback.start(self._id)
        self._thread: threading.Thread = InheritableThread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_active(self) -> bool:
        return self._thread.is_alive()

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
            self.error = error

    def _activate(self) -> None:
        """Make the copy the active session of this thread, where Spark looks for formats."""
        java: Any = self._spark._jvm
        sessions = java.org.apache.spark.sql.classic.SparkSession
        sessions.setActiveSession(self._spark._jsparkSession)

    def _step(self) -> bool:
        """Process the next batch; return whether there was one."""
        batch = self.committed + 1
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
        self.committed, self.reached = batch, end
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
