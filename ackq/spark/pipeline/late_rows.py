"""Counts the rows that are earlier than the watermark of their micro-batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ackq.spark.checkpoint import text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
