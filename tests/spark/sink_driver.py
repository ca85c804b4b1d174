"""A driver of a stream from files into the sink, for tests that kill it.

``python -m tests.spark.sink_driver SPEC``, where SPEC is JSON: the folder of the input, its
checkpoint, the options of the sink, and the file into which the JVM's process id goes.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.conftest import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def main(spec: dict[str, Any]) -> None:
    """Write all files, one a batch, then end."""
    from ackq.spark import session

    warnings.simplefilter("ignore")
    config = {**SMALL, "spark.sql.execution.arrow.maxRecordsPerBatch": 2500}
    spark = session("sink-driver", master="local[2,3]", config=config)
    spark.sparkContext.setLogLevel("OFF")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    Path(spec["pid"]).write_text(f"{jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}")
    after = spec["flaky"]
    query = write(spark, spec["input"], spec["checkpoint"], spec["options"], after)
    query.awaitTermination()
    spark.stop()


def write(
    spark: SparkSession, source: str, checkpoint: str, options: dict[str, Any], after: int = 0
) -> StreamingQuery:
    """Start the stream: all files, one a batch, then it ends."""
    rows = spark.readStream.schema("id string, n long").option("maxFilesPerTrigger", 1).json(source)
    if (column := options.get("queueColumn")) is not None:
        rows = rows.selectExpr("*", f"concat('{column}-', n % 2) AS `{column}`")
    if after:
        rows = rows.mapInArrow(flaky(after), rows.schema)
    writer = rows.writeStream.format("ackq").options(**options)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def flaky(after: int) -> Any:
    """Return a step that fails the first attempt of every task after a number of rows."""

    def step(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            if seen > after and context.attemptNumber() == 0:
                raise RuntimeError("the first attempt fails")
            yield batch

    return step


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
