"""Write the rows of a batch to the sink: exactly once, if the sink supports it."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from ackq.spark.checkpoint import file_system, local_folder
from ackq.spark.pipeline.config import Sink
from ackq.spark.pipeline.trial_sink import TrialSink
from ackq.spark.shards import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: File systems whose rename of a folder is one step, and fails if the new name exists.
SCHEMES = ("file", "hdfs", "viewfs", "webhdfs", "abfs", "abfss")


class Drafts:
    """Folders of batches within a folder. Each is written as a draft, and renamed when it is whole.

    Guarantee: a folder has the rows of its batch, all of them and once, whichever runs overlap, and
    wherever they are frozen or killed. Its name is that of the claim. Of two drafts, the second is
    refused by the rename, and both have the same rows.
    """

    def __init__(self, spark: SparkSession, folder: str, drafts: str, prefix: str = "") -> None:
        """Prepare.

        Args:
            spark: the session.
            folder: where the folders of batches are.
            drafts: where they are written: a folder that readers ignore.
            prefix: what the names of folders begin with. Defaults to nothing.
        """
        self._spark, self._folder, self._drafts, self._prefix = spark, folder, drafts, prefix
        self._disk = Disk(spark, folder)

    def path(self, batch: Batch) -> str:
        """Return where to write a batch."""
        return f"{self._drafts}/{batch.draft}"

    def is_published(self, batch: Batch) -> bool:
        """Return whether a batch is there."""
        return self._disk.exists(self._published(batch))

    def publish(self, batch: Batch) -> None:
        """Give the draft of a batch its name, and remove what earlier runs left behind.

        Raises:
            Fenced: another run has taken over; nothing was published.
        """
        draft = self.path(batch)
        if self._disk.exists(draft):
            batch.claims.check_group()
            self._disk.make_folder(self._folder)
            if not self._disk.rename(draft, self._published(batch)):
                self._disk.remove(draft)  # another run has published the same rows
        for left in self._disk.folders(self._drafts):
            _, run, _ = left.rpartition("/")[2].split(".")
            # A later run may be writing.
            if int(run) < batch.claims.began:
                self._disk.remove(left)

    def _published(self, batch: Batch) -> str:
        return f"{self._folder}/{self._prefix}{batch.name}"


class Disk:
    """The file system of a folder, which only Spark's JVM can use."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        session: Any = spark
        self._spark = spark
        self._jvm = session._jvm
        self._path = session._jvm.org.apache.hadoop.fs.Path
        self._files = file_system(spark, folder)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder."""
        return bool(self._files.exists(self._path(path)))

    def make_folder(self, path: str) -> None:
        """Make a folder, and those that it is in."""
        self._files.mkdirs(self._path(path))

    def rename(self, old: str, new: str) -> bool:
        """Rename a folder in one step; return False if the new name exists.

        ``FileSystem.rename`` would move the folder into the one that exists, and say that it had
        succeeded.
        """
        local = local_folder(self._spark, new)
        if local is not None:
            # Hadoop's local file system copies if the rename is refused.
            source = local_folder(self._spark, old)
            assert source is not None
            try:
                os.rename(source, local)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
            return True
        none = self._jvm.org.apache.hadoop.fs.Options.Rename.NONE
        never_overwrite = self._jvm.java.lang.reflect.Array.newInstance(none.getClass(), 1)
        never_overwrite[0] = none
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._files.getUri(), self._files.getConf()
        )
        try:
            context.rename(self._path(old), self._path(new), never_overwrite)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" in str(error.java_exception.getClass().getName()):
                return False
            raise
        return True

    def remove(self, path: str) -> None:
        """Remove a folder with everything in it."""
        self._files.delete(self._path(path), True)

    def folders(self, path: str) -> list[str]:
        """Return the folders within a folder, which may be missing."""
        if not self.exists(path):
            return []
        files = self._files.listStatus(self._path(path))
        return [each.getPath().toString() for each in files if each.isDirectory()]

    def age(self, path: str) -> float:
        """Return for how many seconds nothing in a folder was added or removed."""
        changed = self._files.getFileStatus(self._path(path)).getModificationTime() / 1000
        return time.time() - float(changed)

    def has_rows(self, path: str) -> bool:
        """Return whether a folder has files of rows."""
        files = self._files.listStatus(self._path(path))
        return any(each.getPath().getName().endswith(".parquet") for each in files)


def can_publish(spark: SparkSession, folder: str) -> bool:
    """Return whether the file system of a folder can do what `Drafts` needs.

    Object stores have no rename. Delta writes to them once, too.
    """
    return file_system(spark, folder).getUri().getScheme() in SCHEMES


#: Seconds for which the empty folder of a batch is kept.
KEPT = 600.0


class RowLog:
    """A folder with one folder of Parquet files for each batch.

    Guarantee: a reader finds each batch once, and whole; see `Drafts`.
    """

    def __init__(self, folder: str) -> None:
        self._complete, self._drafts = f"{folder}/rows", f"{folder}/drafts"

    def append(self, rows: DataFrame, batch: Batch) -> None:
        """Write the rows of a batch, unless they are in the log already."""
        drafts = Drafts(rows.sparkSession, self._complete, self._drafts)
        if not drafts.is_published(batch):
            rows.write.mode("overwrite").parquet(drafts.path(batch))
            drafts.publish(batch)

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """Return the rows as a stream. Files are deleted when they are no longer needed."""
        Disk(spark, self._complete).make_folder(self._complete)
        reader = spark.readStream.schema(schema).option("cleanSource", "delete")
        return reader.parquet(f"{self._complete}/*")

    def remove_read(self, spark: SparkSession) -> None:
        """Remove the folders whose files were read and deleted some time ago, except the newest.

        The newest batch may be written again. A run that was frozen just before it published an
        older one finds its folder. Call it only in the thread of the reader, whose list of folders
        must not change meanwhile.
        """
        disk = Disk(spark, self._complete)
        for folder in sorted(disk.folders(self._complete))[:-1]:
            if disk.age(folder) > KEPT and not disk.has_rows(folder):
                disk.remove(folder)


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
