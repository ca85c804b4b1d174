"""A query on a cluster of two executors: ``python -m tests.spark.clustered``.

First the queue is copied to ``<queue>-copy``, by the format as Spark finds it by itself. Then a
stream: the task that reads first says which process it is in and waits to be killed with its
executor; the attempt that follows runs through. The arguments are a folder for files and the queue;
the URL comes by the environment.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ackq.spark import session
from ackq.spark.claim_reader import ClaimReader
from ackq.spark.lists import located
from ackq.spark.options import Reading
from ackq.spark.source import AckqDataSource
from ackq.spark.stream import QueueStream
from tests.spark.conftest import SMALL
from tests.spark.doomed import FOLDER, write
from tests.spark.home import JAVA


class WaitingSource(AckqDataSource):
    """The format ``ackq_waiting``."""

    @classmethod
    def name(cls) -> str:
        return "ackq_waiting"

    def streamReader(self, schema: StructType) -> WaitingStream:
        return WaitingStream(located(Reading.of(self.options)), schema)


class WaitingReader(ClaimReader):
    """Waits to be killed in the first attempt to read a slice that does not start at 0."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            yield batch
            if partition.start and _is_first():  # type: ignore[attr-defined]
                time.sleep(600)


class WaitingStream(QueueStream):
    reader = WaitingReader


def _is_first() -> bool:
    """Write down this process, unless another one did."""
    try:
        with Path(os.environ[FOLDER], "reached").open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return False
    return True


def run(folder: Path, queue: str) -> None:
    os.environ[FOLDER] = str(folder)
    (folder / "rows").mkdir()
    spark = session(
        "clustered",
        master="local-cluster[2,1,1024]",
        config={
            **SMALL,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": JAVA,
        },
    )
    looked_at = spark.read.format("ackq").load(queue)
    looked_at.write.format("ackq").mode("append").save(f"{queue}-copy")
    spark.dataSource.register(WaitingSource)
    frame = (
        spark.readStream.format("ackq_waiting")
        .options(maxMessagesPerTrigger=2000, minPartitions=2, fetchSize=100)
        .load(queue)
    )

    def sink(batch_frame: DataFrame, batch: int) -> None:
        write(batch_frame, batch, folder / "rows", "only")

    query = frame.writeStream.foreachBatch(sink)
    query = query.option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    # The workers of a cluster in one JVM hold its end up.
    os._exit(0)


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
