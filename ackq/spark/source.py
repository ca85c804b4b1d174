"""The data source ``ackq`` that Spark loads: its schema, readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackq.errors import ConfigurationError

try:
    import pyspark.sql.streaming.datasource  # noqa: F401 - only to say what is missing
    from pyspark.sql.datasource import DataSource
except ModuleNotFoundError:
    raise ConfigurationError(
        "the format 'ackq' needs PySpark 4.2 or later: pip install 'ackq[spark]'"
    ) from None

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

# Spark also creates this object in processes that only plan queries. So imports happen where they
# are needed, and no connection is opened before Spark asks for data.


class AckqDataSource(DataSource):
    """``spark.readStream.format("ackq")``, and ``read``, ``write`` and ``writeStream``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ackq"

    def schema(self) -> StructType:
        """Return the default columns, used if the user sets no schema."""
        from ackq.spark.columns import default_schema
        from ackq.spark.options import Reading

        return default_schema(Reading.of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of a queue or of a range of a topic that takes no messages."""
        from ackq.spark.lists import located
        from ackq.spark.options import Kind, Reading, check_use
        from ackq.spark.peek import DelayPeekReader, QueuePeekReader
        from ackq.spark.topic_source import TopicRange

        check_use(self.options, stream=False)
        reading = located(Reading.of(self.options))
        readers: dict[Kind, type[QueuePeekReader | DelayPeekReader | TopicRange]] = {
            "queue": QueuePeekReader,
            "delayQueue": DelayPeekReader,
            "topic": TopicRange,
        }
        return readers[reading.target.kind](reading, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader that consumes a queue or a delay queue, or follows a topic."""
        from ackq.spark.lists import located
        from ackq.spark.options import Reading, check_use
        from ackq.spark.stream import QueueStream
        from ackq.spark.topic_source import TopicStream

        check_use(self.options, stream=True)
        reading = Reading.of(self.options)
        if reading.target.kind == "topic":
            return TopicStream(reading, schema)
        return QueueStream(located(reading), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch query."""
        from ackq.spark.sink import BatchSink

        return BatchSink(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a stream."""
        from ackq.spark.sink import StreamSink

        return StreamSink(self.options, schema, overwrite)
