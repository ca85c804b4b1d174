"""The dead letters and what is in flight of many queues, as one table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ackq.ops.monitor import Monitor
from ackq.queue.messages import QueueStats
from ackq.spark.options import Connection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: SCANs of the look for queues, 1,000 keys each.
STEPS = 1000
#: The states that are reported, and what counts them.
STATES = ("dead", "in_flight")
#: The columns of the table, one row a message. ``at`` is when it died, or when its lease ends;
#: ``bytes`` the size of its body, which stays where it is: it may hold what is nobody's business.
SCHEMA = """queue STRING, state STRING, id STRING, entry STRING, reason STRING,
            receive_count BIGINT, at TIMESTAMP, bytes INT"""


@dataclass(frozen=True, slots=True)
class Overview:
    """What there is, by the server's count."""

    #: The server's time, or this machine's where the server may not be asked, in seconds since the
    #: epoch.
    taken_at: float
    queues: Mapping[str, QueueStats]


def overview(connection: Connection, names: tuple[str, ...]) -> Overview:
    """Count the messages of the queues ``names``, or of all that are found.

    Raises:
        redis.ConnectionError: Redis cannot be reached.
        KeyTypeError: a queue that was named is something else.
    """
    client = connection.client()
    seen = Monitor(client, names, STEPS).look()  # type: ignore[arg-type]
    taken_at = time.time() if seen.at is None else seen.at
    return Overview(taken_at, {name: each.stats for name, each in sorted(seen.queues.items())})


def messages(spark: SparkSession, seen: Overview, options: Mapping[str, str]) -> DataFrame:
    """Return a row for each dead letter and each message in flight; nothing is taken.

    Args:
        spark: the session.
        seen: the queues; those that have neither are not read.
        options: of the format ``ackq``, such as ``url``.
    """
    parts = [
        _part(spark, name, state, options)
        for name, stats in seen.queues.items()
        for state in STATES
        if getattr(stats, state)
    ]
    return reduce(lambda one, other: one.unionByName(other), parts,
                  spark.createDataFrame([], SCHEMA))  # fmt: skip


def _part(spark: SparkSession, name: str, state: str, options: Mapping[str, str]) -> DataFrame:
    reader = spark.read.format("ackq").options(**options)
    rows = reader.option("queue", name).option("state", state).option("includeMetadata", "true")
    return rows.load().select(
        "queue", "state", "id", "entry", "reason", "receive_count", "at",
        F.length("_body").alias("bytes"),
    )  # fmt: skip
