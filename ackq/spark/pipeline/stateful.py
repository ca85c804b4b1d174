"""Run the query of a stateful sink: SQL over the rows of all batches, with Spark's state."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ackq.spark.checkpoint import text_of
from ackq.spark.pipeline import sinks
from ackq.spark.pipeline.config import PipelineConfig, Sink
from ackq.spark.pipeline.plan import Plan
from ackq.spark.pipeline.query import BatchCallback, Stopping
from ackq.spark.pipeline.sinks import RowLog
from ackq.spark.shards import Batch, Shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger("ackq.spark")
#: Errors that a checkpoint of another format causes.
_OTHER_FORMAT = (
    LookupError,
    OverflowError,
    TypeError,
    ValueError,
    Py4JJavaError,
    PySparkException,
)


class LateRows:
    """The late rows of a query that reads Parquet files.

    Spark counts what it leaves out only after it has combined the rows of each group. The files of
    a micro-batch and its watermark are in the checkpoint.
    """

    def __init__(self, checkpoint: str, schema: StructType, column: str) -> None:
        """Prepare.

        Args:
            checkpoint: the folder of the query's checkpoint.
            schema: the columns of its rows.
            column: the one that has the time.
        """
        self._checkpoint, self._column = checkpoint, column
        self._schema = StructType([field for field in schema if field.name == column])

    def count(self, spark: SparkSession, batch: int) -> int | None:
        """Return how many rows of a planned micro-batch are earlier than its watermark.

        None if this release of Spark writes its checkpoint in another way. Cost: one job, which
        looks only at the statistics of files that have no late rows.
        """
        try:
            metadata, last = self._planned(spark, batch)
            watermark = datetime.fromtimestamp(metadata["batchWatermarkMs"] / 1000, UTC)
            before = self._planned(spark, batch - 1)[1] if batch else -1
            files = [file for at in range(before + 1, last + 1) for file in self._files(spark, at)]
            if not files:
                return 0
            rows = spark.read.schema(self._schema).parquet(*files)
            # As text, the watermark has no zone for a time without one.
            limit = F.lit(watermark.isoformat()).cast(self._schema[0].dataType)
            return rows.where(F.col(f"`{self._column}`") < limit).count()
        except _OTHER_FORMAT as error:
            _LOG.info("late rows are not counted one by one: %s", str(error).partition("\n")[0])
            return None

    def _planned(self, spark: SparkSession, batch: int) -> tuple[dict[str, Any], int]:
        """Return the metadata of a micro-batch, and the place in the log of files where it ends."""
        _, metadata, end = text_of(spark, f"{self._checkpoint}/offsets/{batch}").splitlines()
        return json.loads(metadata), json.loads(end)["logOffset"]

    def _files(self, spark: SparkSession, at: int) -> Iterator[str]:
        """Yield the files at a place in the log of files."""
        path = f"{self._checkpoint}/sources/0/{at}"
        try:
            text = text_of(spark, path)
        except Py4JJavaError:  # it was merged with older files
            text = text_of(spark, f"{path}.compact")
        for line in text.splitlines()[1:]:
            entry = json.loads(line)
            if entry["batchId"] == at:
                yield unquote(entry["path"])


#: Seconds between two micro-batches at least: each lists the folders of the log.
MIN_INTERVAL = 1.0
_PARTITIONS, _DEFAULT_PARTITIONS = "spark.sql.shuffle.partitions", "200"


class StatefulSink:
    """A sink with a query of its own.

    Guarantee: the state has each row once. The pipeline adds each batch to the log once, the query
    reads each batch of the log once, and Spark's checkpoint replays an unfinished micro-batch with
    the same rows from the same state. Results are written as `sinks.write_result` does.
    """

    def __init__(self, config: PipelineConfig, plan: Plan, sink: Sink) -> None:
        assert sink.stateful is not None
        self._config, self._plan, self._sink = config, plan, sink
        self._stateful = sink.stateful
        self._log = RowLog(sink.stateful.folder)
        self._counted = -1
        #: Rows that were earlier than the watermark, in micro-batches where Spark left some out.
        self.late = 0
        self.batches = _Results(sink, self._log)
        self._query: StreamingQuery | None = None

    @property
    def section(self) -> str:
        """The section of the configuration."""
        return self._sink.section

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return self._query is not None and self._query.isActive

    @property
    def error(self) -> Exception | None:
        """The error that ended the query; None if it runs, was stopped, or is done."""
        if self._query is None or isinstance(self.batches.error, Stopping):
            return None
        return self._query.exception()

    def start(self, spark: SparkSession, claims: Shards, once: bool) -> None:
        """Start the query; with ``once``, it ends when it has read the log."""
        self.batches.claims = claims
        schema = self._plan.rows_schema(spark)
        rows = self._log.read(spark, schema)
        state = f"{self._stateful.folder}/state"
        if self._stateful.watermark is not None:
            self.batches.late_rows = LateRows(state, schema, self._stateful.watermark[0])
        writer = self._plan.stateful_output(self._sink, rows).writeStream
        writer = writer.foreachBatch(self.batches).outputMode(self._stateful.output_mode)
        writer = writer.option("checkpointLocation", state)
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            every = max(self._config.every, MIN_INTERVAL)
            writer = writer.trigger(processingTime=f"{round(every * 1000)} milliseconds")
        with _few_partitions(spark, self._config):
            self._query = writer.queryName(f"{self._config.name}.{self._sink.name}").start()
        self.batches.start(self._query.id)

    def stop(self, *, abort: bool) -> None:
        """Stop the query if no batch is running, or with ``abort`` at once. Call it again."""
        self.batches.stopping = True
        if self._query is None:
            return
        last = self._query.lastProgress
        if abort or self.batches.is_between_batches(-1 if last is None else last.batchId):
            self.batches.aborted = abort
            self._query.stop()

    def count_late(self) -> None:
        """Update `late`."""
        for progress in self._query.recentProgress if self._query is not None else ():
            if progress.batchId > self._counted:
                self._counted = progress.batchId
                left_out = sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
                found = self.batches.late.pop(progress.batchId, 0)
                # Spark counts those of one group as one.
                self.late += max(left_out, found) if left_out else 0


@contextmanager
def _few_partitions(spark: SparkSession, config: PipelineConfig) -> Iterator[None]:
    """Let a query that starts have a partition for each task, unless the user chose a number.

    Each has a store of state, which is written in every micro-batch: Spark's 200 are too many.
    """
    before = spark.conf.get(_PARTITIONS)
    if _PARTITIONS not in config.spark and before == _DEFAULT_PARTITIONS:
        spark.conf.set(_PARTITIONS, spark.sparkContext.defaultParallelism)
    try:
        yield
    finally:
        spark.conf.set(_PARTITIONS, str(before))


class _Results(BatchCallback):
    """Writes the results of each micro-batch of the query."""

    def __init__(self, sink: Sink, log: RowLog) -> None:
        super().__init__()
        self._sink, self._log = sink, log
        #: The claims of this run.
        self.claims: Shards | None = None
        #: Counts late rows. None if there is no watermark.
        self.late_rows: LateRows | None = None
        #: How many rows were earlier than the watermark, by micro-batch, until Spark reports on it.
        self.late: dict[int, int] = {}

    def _write(self, rows: DataFrame, number: int) -> None:
        results: Any = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            # Evaluated in a replay, too: the next micro-batch needs the state after this one.
            if results.count():
                sinks.write_result(self._sink, results, self._batch(number))
        finally:
            results.unpersist()
        if self.late_rows is not None and (late := self.late_rows.count(rows.sparkSession, number)):
            self.late[number] = late
        self._log.remove_read(rows.sparkSession)

    def _batch(self, number: int) -> Batch:
        """Return the batch of a micro-batch of this query, whose state has the same number."""
        assert self.claims is not None
        writer = self._query_id.replace("-", "")[:12]
        return Batch(number, writer, number, 0, self.claims)
