"""Writes the rows of a batch, once however often the batch is replayed where the sink can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ackq.spark.pipeline.config import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

#: The column that readers see for the folder of a batch.
FOLDER = "ackq_batch"
#: What a committer writes into a folder last, when everything else is there.
_DONE = "_SUCCESS"


def write(sink: Sink, rows: DataFrame, query_id: str, batch_id: int) -> None:
    """Write the rows of batch ``batch_id`` of query ``query_id``.

    Files and the format "ackq" hold them once, however often this is called; so does Delta. Any
    other format is appended to, at least once.
    """
    if sink.kind == "files":
        _write_files(sink, rows, folder_of(query_id, batch_id))
        return
    options = sink.all_options()
    if sink.kind == "ackq" or sink.format == "delta":
        options |= {"txnAppId": query_id, "txnVersion": str(batch_id)}
    writer = rows.write.format(sink.format).options(**options).mode("append")
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.save(sink.path)


def attempt(sink: Sink, rows: DataFrame) -> None:
    """Do all that `write` does with rows, but for writing them.

    Raises:
        Exception: what Spark, or a function of the user, raises at one of the rows.
    """
    if sink.kind == "ackq":
        rows = rows.mapInArrow(_encoder(sink, rows.schema), "rows LONG")
    rows.write.format("noop").mode("overwrite").save()


def folder_of(query_id: str, batch_id: int) -> str:
    """Return the folder of a batch: no other query and no other checkpoint has the same."""
    return f"{FOLDER}={query_id.replace('-', '')[:12]}-{batch_id:09d}"


def _encoder(sink: Sink, schema: StructType) -> Callable[[Iterator[Any]], Iterator[Any]]:
    from ackq.spark.sink_options import Writing

    writing = Writing.of(sink.all_options(), stream=False)

    def encode(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from ackq.spark.outgoing import Outgoing

        outgoing = Outgoing(schema, writing)
        for batch in batches:
            outgoing.encode(batch, "row {}".format, 0)
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})

    return encode


def _write_files(sink: Sink, rows: DataFrame, folder: str) -> None:
    """Fill the folder of the batch, unless it is complete; what an attempt left is replaced."""
    path = f"{(sink.path or '').rstrip('/')}/{folder}"
    if _exists(rows, f"{path}/{_DONE}"):
        return
    writer = rows.write.format(sink.format).options(**sink.options)
    writer = writer.mode("overwrite").option("partitionOverwriteMode", "static")
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.save(path)


def _exists(rows: DataFrame, path: str) -> bool:
    # Whatever Spark can write to has a file system of Hadoop's, which only the JVM knows.
    session: Any = rows.sparkSession
    jvm_path = session._jvm.org.apache.hadoop.fs.Path(path)
    file_system = jvm_path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    return bool(file_system.exists(jvm_path))
