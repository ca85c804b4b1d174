"""Write the rows of a batch to the sink: exactly once, if the sink supports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackq.spark.pipeline.parts import Sink
from ackq.spark.pipeline.row_log import RowLog
from ackq.spark.pipeline.trial_sink import TrialSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The column that readers see for the folder of a batch.
FOLDER = "ackq_batch"
#: The file that Spark writes last into a folder, when all others are complete.
_DONE = "_SUCCESS"


def write(sink: Sink, rows: DataFrame, query_id: str, batch_id: int) -> None:
    """Write the rows of batch ``batch_id`` of query ``query_id`` to one sink.

    Exactly once for files, the format "ackq" and Delta, however often the batch is replayed. At
    least once for other formats: rows are appended. The rows of a stateful sink go to its log.
    """
    if sink.stateful is not None:
        batch = folder_of(query_id, batch_id).removeprefix(f"{FOLDER}=")
        RowLog(sink.stateful.folder).append(rows, batch)
        return
    write_result(sink, rows, query_id, batch_id)


def write_result(sink: Sink, rows: DataFrame, query_id: str, batch_id: int) -> None:
    """Write the rows of a batch to the target of a sink, as `write` does."""
    if sink.kind == "files":
        _write_files(sink, rows, folder_of(query_id, batch_id))
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


def _write_files(sink: Sink, rows: DataFrame, folder: str) -> None:
    """Write the folder of the batch, unless it is complete. An incomplete folder is replaced."""
    path = f"{(sink.path or '').rstrip('/')}/{folder}"
    if _exists(rows, f"{path}/{_DONE}"):
        return
    writer = rows.write.format(sink.format).options(**sink.options)
    writer = writer.mode("overwrite").option("partitionOverwriteMode", "static")
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.save(path)


def _exists(rows: DataFrame, path: str) -> bool:
    # Every storage that Spark can write to has a Hadoop file system, which only the JVM can use.
    session: Any = rows.sparkSession
    jvm_path = session._jvm.org.apache.hadoop.fs.Path(path)
    file_system = jvm_path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    return bool(file_system.exists(jvm_path))
