"""A log of the rows of finished batches, from which a stateful query reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ackq.spark.checkpoint import file_system

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class RowLog:
    """A folder with one folder of Parquet files for each batch.

    Guarantee: a reader finds each batch once, and whole. Files are written elsewhere, and their
    folder is renamed when it is complete, which is one step in HDFS and on local disks. Spark's
    checkpoints need the same of a file system.
    """

    def __init__(self, folder: str) -> None:
        self._complete, self._drafts = f"{folder}/rows", f"{folder}/drafts"

    def append(self, rows: DataFrame, batch: str) -> None:
        """Write the rows of a batch, unless they are in the log already."""
        # Another driver, which is about to be fenced, may still write the same batch. If both
        # rename their drafts, the second becomes a folder within the first, where nobody reads.
        draft, complete = f"{self._drafts}/{batch}.{uuid4().hex}", f"{self._complete}/{batch}"
        disk = _Disk(rows.sparkSession, complete)
        if not disk.exists(complete):
            rows.write.parquet(draft)
            disk.make_folder(self._complete)
            disk.rename(draft, complete)
        for left in disk.folders(self._drafts):
            if left.rpartition("/")[2] < batch:  # of a killed driver, whose batch is complete
                disk.remove(left)

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """Return the rows as a stream. Files are deleted when they are no longer needed."""
        _Disk(spark, self._complete).make_folder(self._complete)
        reader = spark.readStream.schema(schema).option("cleanSource", "delete")
        return reader.parquet(f"{self._complete}/*")

    def remove_read(self, spark: SparkSession) -> None:
        """Remove the folders whose files have been read and deleted, except the newest.

        The newest batch may be written again. Call it only in the thread of the reader, whose list
        of folders must not change meanwhile.
        """
        disk = _Disk(spark, self._complete)
        for folder in sorted(disk.folders(self._complete))[:-1]:
            if not disk.has_rows(folder):
                disk.remove(folder)


class _Disk:
    """The file system of a folder, which only Spark's JVM can use."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        session: Any = spark
        self._path = session._jvm.org.apache.hadoop.fs.Path
        self._files = file_system(spark, folder)

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._path(path)))

    def make_folder(self, path: str) -> None:
        self._files.mkdirs(self._path(path))

    def rename(self, old: str, new: str) -> None:
        if not self._files.rename(self._path(old), self._path(new)):
            raise OSError(f"{old} could not be renamed to {new}")

    def remove(self, path: str) -> None:
        self._files.delete(self._path(path), True)

    def folders(self, path: str) -> list[str]:
        """Return the folders within a folder, which may be missing."""
        if not self.exists(path):
            return []
        files = self._files.listStatus(self._path(path))
        return [each.getPath().toString() for each in files if each.isDirectory()]

    def has_rows(self, path: str) -> bool:
        files = self._files.listStatus(self._path(path))
        return any(each.getPath().getName().endswith(".parquet") for each in files)
