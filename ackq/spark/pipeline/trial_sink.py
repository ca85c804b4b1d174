"""A sink that converts rows to messages and writes none, to find those that cannot be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from ackq.spark.row_encoder import RowEncoder
from ackq.spark.sink_options import Writing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class TrialSink(DataSource):
    """The format ``ackq_trial``, with the options of ``ackq``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ackq_trial"

    def writer(self, schema: StructType, overwrite: bool) -> TrialWriter:
        """Return the writer."""
        return TrialWriter(self.options, schema)


class TrialWriter(DataSourceArrowWriter):
    """Converts rows, and drops the messages. A data source, unlike mapInArrow, needs no pandas."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._writing = Writing.of(options, stream=False)
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Convert the rows of one task.

        Raises:
            InvalidMessage, MessageTooLarge: a row cannot become a message.
        """
        encoder = RowEncoder(self._schema, self._writing)
        for batch in iterator:
            encoder.encode(batch, "row {}".format, 0)
        return WriterCommitMessage()
