"""A log of the rows of finished batches, from which a stateful query reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackq.spark.pipeline.batch import Batch
from ackq.spark.pipeline.drafts import Disk, Drafts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

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
