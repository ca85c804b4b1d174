"""Read the dead letters and the messages in flight of many queues as one table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ackq.ops.overview import Overview as Readings
from ackq.queue.messages import QueueStats
from ackq.spark.connection import Connection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The states of the messages in a report.
STATES = ("dead", "in_flight")
#: The columns of the table, which has one row per message. ``at`` is the time when the message
#: became a dead letter, or when its lease ends. Bodies may be confidential, so only their size in
#: bytes is included.
SCHEMA = """queue STRING, state STRING, id STRING, entry STRING, reason STRING,
            receive_count BIGINT, at TIMESTAMP, bytes INT"""


@dataclass(frozen=True, slots=True)
class Overview:
    """The queues and their counts."""

    #: Seconds since the epoch by the server's clock, or by this machine's if the server does not
    #: permit TIME.
    taken_at: float
    queues: Mapping[str, QueueStats]


def overview(connection: Connection, names: tuple[str, ...]) -> Overview:
    """Count the messages of the queues ``names``, or of all queues that are found.

    Raises:
        redis.ConnectionError: Redis cannot be reached.
        KeyTypeError: the key of a named queue is of another type.
    """
    with Readings(connection.client(), names) as readings:
        snapshot = readings.read()
    snapshot.check()
    taken_at = time.time() if snapshot.at is None else snapshot.at
    # A sharded queue is read shard by shard.
    all_readings = (part for queue in snapshot.queues for part in (queue, *queue.parts))
    stats = {each.name: each.stats for each in all_readings if each.stats is not None}
    return Overview(taken_at, dict(sorted(stats.items())))


def messages(spark: SparkSession, found: Overview, options: Mapping[str, str]) -> DataFrame:
    """Return a row for each dead letter and each message in flight, without taking messages.

    Args:
        spark: the session.
        found: the queues. Those without such messages are not read.
        options: options of the format ``ackq``, such as ``url``.
    """
    parts = [
        _part(spark, name, state, options)
        for name, stats in found.queues.items()
        for state in STATES
        if getattr(stats, state)
    ]
    return reduce(
        lambda one, other: one.unionByName(other), parts, spark.createDataFrame([], SCHEMA)
    )


def _part(spark: SparkSession, name: str, state: str, options: Mapping[str, str]) -> DataFrame:
    reader = spark.read.format("ackq").options(**options)
    rows = reader.option("queue", name).option("state", state).option("includeMetadata", "true")
    return rows.load().select(
        "queue",
        "state",
        "id",
        "entry",
        "reason",
        "receive_count",
        "at",
        F.length("_body").alias("bytes"),
    )
