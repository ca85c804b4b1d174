"""Spark's part of the benchmark: write a queue, read it, and wait for messages."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import redis

from ackq.bench.messages import Messages
from ackq.errors import ConfigurationError
from ackq.spark.launch import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Two of Spark's tasks at a time.
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
}
#: Longest time, in seconds, for one query.
TIMEOUT = 300
#: How long the last message of a burst may take to arrive.
ARRIVAL = 60.0


class Read(NamedTuple):
    """How a query spent its time, in seconds, and the messages that it read."""

    rows: int
    whole: float  #: from start() to its end
    batches: float  #: from the claim of each batch to the commit log, without the query's start
    reading: float  #: of that, what the executors take


class Queries:
    """A session, and a folder for its checkpoints."""

    def __init__(self, spark: SparkSession, folder: Path, url: str) -> None:
        self._spark, self._folder, self._url = spark, folder, url
        self._numbers = itertools.count()

    def rows(self, count: int, size: int, seed: int) -> DataFrame:
        """Return ``count`` messages of ``size`` bytes in two partitions, made as they are read."""
        from pyspark.sql import functions as F

        payload = Messages(seed, size).one()["payload"]
        number = F.lpad(F.col("id").cast("string"), 8, "0")
        text = F.concat(F.lit('{"id":"m'), number, F.lit(f'","payload":"{payload}"}}'))
        return self._spark.range(0, count, 1, 2).select(text.alias("value"))

    def write(self, rows: DataFrame, queue: str, mode: str) -> None:
        """Write rows to a queue."""
        writer = rows.write.format("ackq").mode("append")
        writer.options(url=self._url, writeMode=mode).save(queue)

    def read(self, queue: str, batch: int) -> Read:
        """Read all of a queue, raw, in micro-batches of ``batch``, into a sink that drops it."""
        before = time.perf_counter()
        writer = self._stream(queue, maxMessagesPerTrigger=batch).writeStream.format("noop")
        query = self._checkpointed(writer).trigger(availableNow=True).start()
        if not query.awaitTermination(TIMEOUT):
            raise TimeoutError(f"the query was not done in {TIMEOUT} s")
        whole = time.perf_counter() - before
        done = [json.loads(each.json) for each in query.recentProgress]
        done = [each for each in done if each["numInputRows"]]
        return Read(
            sum(each["numInputRows"] for each in done),
            whole,
            sum(each["durationMs"]["triggerExecution"] for each in done) / 1000,
            sum(each["durationMs"]["addBatch"] for each in done) / 1000,
        )

    def latencies(self, queue: str, count: int, gap: float, seed: int) -> list[float]:
        """Push ``count`` messages about ``gap`` seconds apart; return the latency of each.

        In milliseconds, from before its LPUSH to the row in foreachBatch.
        """
        sent: dict[str, float] = {}
        came: dict[str, float] = {}
        arrived = threading.Condition()

        def note(frame: DataFrame, _: int) -> None:
            ids = [row.id for row in frame.select("id").collect()]
            with arrived:
                came.update(dict.fromkeys(ids, time.perf_counter()))
                arrived.notify_all()

        def push(client: redis.Redis, number: int) -> str:
            key = f"w{number:05d}"
            sent[key] = time.perf_counter()
            client.lpush(queue, f'{{"id":"{key}"}}')
            return key

        def wait_for(key: str) -> None:
            with arrived:
                if not arrived.wait_for(lambda: key in came, ARRIVAL):
                    raise TimeoutError(f"a message did not come in {ARRIVAL:g} s")

        draw = random.Random(seed)
        query = self._checkpointed(self._stream(queue).writeStream.foreachBatch(note)).start()
        try:
            with redis.Redis.from_url(self._url) as client:
                for number in range(-3, 0):  # the first batches are slow
                    wait_for(push(client, number))
                keys = []
                for number in range(count):
                    time.sleep(gap * draw.uniform(0.5, 1.5))
                    keys.append(push(client, number))
                for key in keys:
                    wait_for(key)
        finally:
            query.stop()
        return sorted((came[key] - sent[key]) * 1000 for key in keys)

    def _stream(self, queue: str, **options: Any) -> DataFrame:
        reader = self._spark.readStream.format("ackq").options(url=self._url, **options)
        return reader.load(queue)

    def _checkpointed(self, writer: Any) -> Any:
        return writer.option("checkpointLocation", str(self._folder / str(next(self._numbers))))


def absent() -> str | None:
    """Return what is missing to run Spark, or None."""
    for module in ("pyspark", "pyarrow"):
        if not find_spec(module):
            return f"{module} is missing: pip install 'ackq[spark]'"
    try:
        find_java()
    except ConfigurationError as error:
        return str(error)
    return None


@contextmanager
def queries(url: str) -> Iterator[Queries]:
    """Yield a session on two cores, which ends with the block; nothing may be `absent`."""
    from ackq.spark.launch import quiet_session

    with (
        tempfile.TemporaryDirectory(prefix="ackq-bench-") as folder,
        quiet_session("ackq benchmark", SETTINGS, None) as spark,
    ):
        yield Queries(spark, Path(folder), url)
