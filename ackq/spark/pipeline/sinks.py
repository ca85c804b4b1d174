"""Write the rows of a batch to the sink: exactly once, if the sink supports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackq.spark.pipeline.batch import Batch
from ackq.spark.pipeline.drafts import Drafts, RowLog
from ackq.spark.pipeline.parts import Sink
from ackq.spark.pipeline.trial_sink import TrialSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The column that readers see for the folder of a batch, and the folder that they do not see.
FOLDER, DRAFTS = "ackq_batch", "_drafts"


def write(sink: Sink, rows: DataFrame, batch: Batch) -> None:
    """Write the rows of a batch to one sink; then call `publish`.

    Exactly once for files, the format "ackq" and Delta, however often the batch is replayed. At
    least once for other formats: rows are appended. The rows of a stateful sink go to its log.
    """
    if sink.stateful is not None:
        RowLog(sink.stateful.folder).append(rows, batch)
    else:
        _write_target(sink, rows, batch)


def publish(sink: Sink, spark: SparkSession, batch: Batch) -> None:
    """Let readers see the files of a batch. It is never written again.

    Raises:
        Fenced: another run has taken over.
    """
    if sink.kind == "files" and sink.stateful is None:
        _drafts(sink, spark).publish(batch)


def may_be_first(sink: Sink) -> bool:
    """Return whether a batch that a sink has been given is written again, until it is published."""
    is_once = sink.kind == "ackq" or sink.format == "delta" or sink.stateful is not None
    return not is_once


def write_result(sink: Sink, rows: DataFrame, batch: Batch) -> None:
    """Write results of a stateful sink to its target, as `write` and `publish` do."""
    _write_target(sink, rows, batch)
    if sink.kind == "files":
        _drafts(sink, rows.sparkSession).publish(batch)


def _write_target(sink: Sink, rows: DataFrame, batch: Batch) -> None:
    path, options, mode = sink.path, sink.all_options(), "append"
    if sink.kind == "files":
        drafts = _drafts(sink, rows.sparkSession)
        if drafts.is_published(batch):
            return
        path, mode = drafts.path(batch), "overwrite"
        options |= {"partitionOverwriteMode": "static"}
    elif sink.kind == "ackq" or sink.format == "delta":
        # Two sinks may have the same target.
        writer_id = f"{batch.writer}:{sink.name}" if sink.name else batch.writer
        options |= {"txnAppId": writer_id, "txnVersion": str(batch.version)}
    writer = rows.write.format(sink.format).options(**options).mode(mode)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.save(path)


def _drafts(sink: Sink, spark: SparkSession) -> Drafts:
    folder = (sink.path or "").rstrip("/")
    return Drafts(spark, folder, f"{folder}/{DRAFTS}", f"{FOLDER}=")


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
