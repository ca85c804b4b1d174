"""Write the rows of a batch to the sink: exactly once, if the sink supports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackq.spark.checkpoint import file_system
from ackq.spark.pipeline.parts import Sink
from ackq.spark.pipeline.row_log import RowLog
from ackq.spark.pipeline.trial_sink import TrialSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The column that readers see for the folder of a batch.
FOLDER = "ackq_batch"
#: The file that is written last into a folder, as Spark does.
_DONE = "_SUCCESS"
#: The setting with which Spark leaves it out.
_MARKS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


def write(sink: Sink, rows: DataFrame, query_id: str, batch_id: int) -> None:
    """Write the rows of batch ``batch_id`` of query ``query_id`` to one sink; then call `mark`.

    Exactly once for files, the format "ackq" and Delta, however often the batch is replayed. At
    least once for other formats: rows are appended. The rows of a stateful sink go to its log.
    """
    if sink.stateful is not None:
        batch = folder_of(query_id, batch_id).removeprefix(f"{FOLDER}=")
        RowLog(sink.stateful.folder).append(rows, batch)
        return
    _write_target(sink, rows, query_id, batch_id)


def mark(sink: Sink, spark: SparkSession, query_id: str, batch_id: int) -> None:
    """Mark a batch of files as complete. It is never written again."""
    if sink.kind == "files" and sink.stateful is None:
        _mark(sink, spark, query_id, batch_id)


def may_be_first(sink: Sink) -> bool:
    """Return whether a batch that a sink has been given is written again, until it is marked."""
    is_once = sink.kind == "ackq" or sink.format == "delta" or sink.stateful is not None
    return not is_once


def write_result(sink: Sink, rows: DataFrame, query_id: str, batch_id: int) -> None:
    """Write results of a stateful sink to its target, as `write` and `mark` do."""
    _write_target(sink, rows, query_id, batch_id)
    if sink.kind == "files":
        _mark(sink, rows.sparkSession, query_id, batch_id)


def _write_target(sink: Sink, rows: DataFrame, query_id: str, batch_id: int) -> None:
    if sink.kind == "files":
        _write_files(sink, rows, _path(sink, query_id, batch_id))
        return
    options = sink.all_options()
    if sink.kind == "ackq" or sink.format == "delta":
        # Two sinks may have the same target.
        writer_id = f"{query_id}:{sink.name}" if sink.name else query_id
        options |= {"txnAppId": writer_id, "txnVersion": str(batch_id)}
    writer = rows.write.format(sink.format).options(**options).mode("append")
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.save(sink.path)


def attempt(sink: Sink, rows: DataFrame) -> None:
    """Do everything that `write` does, except writing.

    Raises:
        Exception: any error that Spark or a user's function raises for one of the rows.
    """
    if sink.kind == "ackq" and sink.stateful is None:
        rows.sparkSession.dataSource.register(TrialSink)
        writer = rows.write.format(TrialSink.name()).options(**sink.all_options())
        writer.mode("append").save()
    else:
        rows.write.format("noop").mode("overwrite").save()


def folder_of(query_id: str, batch_id: int) -> str:
    """Return the name of a batch's folder. It is unique to the query and its checkpoint."""
    return f"{FOLDER}={query_id.replace('-', '')[:12]}-{batch_id:09d}"


def _path(sink: Sink, query_id: str, batch_id: int) -> str:
    return f"{(sink.path or '').rstrip('/')}/{folder_of(query_id, batch_id)}"


def _write_files(sink: Sink, rows: DataFrame, path: str) -> None:
    """Write the folder of the batch, unless it is complete. An incomplete folder is replaced."""
    done = f"{path}/{_DONE}"
    if file_system(rows.sparkSession, done).exists(_hadoop_path(rows.sparkSession, done)):
        return
    writer = rows.write.format(sink.format).options(**sink.options)
    writer = writer.mode("overwrite").option("partitionOverwriteMode", "static")
    writer = writer.option(_MARKS, "false")
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.save(path)


def _mark(sink: Sink, spark: SparkSession, query_id: str, batch_id: int) -> None:
    done = f"{_path(sink, query_id, batch_id)}/{_DONE}"
    file_system(spark, done).create(_hadoop_path(spark, done), True).close()


def _hadoop_path(spark: SparkSession, path: str) -> Any:
    java: Any = spark._jvm
    return java.org.apache.hadoop.fs.Path(path)
