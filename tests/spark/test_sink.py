"""The sink under Spark: batches and streams to queues, topics and delay queues."""

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from ackq import Queue
from ackq.delay import PartitionedDelayQueue
from ackq.sharded import ShardedQueue
from ackq.sharded.operations import shard_of
from ackq.topic import Topic
from tests.spark.conftest import quiet

Write = Callable[..., None]


@pytest.fixture
def write(url: str) -> Write:
    """``write(rows, **options)``: append rows in a batch write."""

    def write(rows: DataFrame, **options: Any) -> None:
        with quiet():
            rows.write.format("ackq").mode("append").options(url=url, **options).save()

    return write


@pytest.fixture
def numbered(spark: SparkSession) -> Callable[..., DataFrame]:
    """``numbered(count, *columns)``: rows with the ids "r-0", "r-1", ..., and more columns."""
    return lambda count, *columns: spark.range(count).selectExpr(
        "concat('r-', id) id", "id n", *columns
    )


Numbered = Callable[..., DataFrame]


def bodies(queue: Queue | ShardedQueue) -> list[dict[str, Any]]:
    """Take all messages."""
    found = []
    while messages := queue.pop_many(1000):
        found += [message.json() for message in messages]
        queue.ack(*messages)
    return found


def staged(client: redis.Redis, token: str) -> list[bytes]:
    keys = list(client.scan_iter(f"*{token}*"))
    return [key for key in keys if b"STAG" in key or b"HELD" in key or b"COMMITS" in key]


def test_rows_become_messages_once_and_nothing_else_is_left(
    numbered: Numbered, write: Write, queue: Queue, plain_client: redis.Redis, token: str
) -> None:
    write(numbered(500).repartition(3), queue=token)
    found = bodies(queue)
    assert Counter(each["id"] for each in found) == Counter(f"r-{n}" for n in range(500))
    assert all(each == {"id": f"r-{each['n']}", "n": each["n"]} for each in found)
    assert not staged(plain_client, token)


def test_delays_and_instants_come_from_columns(
    spark: SparkSession, write: Write, queue: Queue, token: str
) -> None:
    rows = spark.createDataFrame([("now", 0), ("later", 3600)], "value string, wait int")
    write(rows, queue=token, delayColumn="wait")
    assert queue.pop().body == b"now"  # type: ignore[union-attr]
    waiting = queue.peek(1, "delayed")[0]
    assert waiting.body == b"later"
    assert abs((waiting.at or 0) - time.time() - 3600) < 100
    write(
        spark.sql("SELECT 'x' id, timestamp '2200-01-01 00:00:00' due"), queue=token, atColumn="due"
    )
    at = {each.id: each.at for each in queue.peek(10, "delayed")}
    assert at["x"] == 7_258_118_400
    assert queue.stats().delayed == 2


def test_a_version_of_an_application_is_written_once(
    numbered: Numbered, write: Write, queue: Queue, token: str
) -> None:
    for version in (3, 3, 2, 4):
        write(numbered(20), queue=token, txnAppId="nightly", txnVersion=version)
    assert Counter(body["n"] for body in bodies(queue)) == Counter(2 * list(range(20)))


def test_a_row_that_is_null_is_named_and_nothing_is_written(
    spark: SparkSession, write: Write, queue: Queue, plain_client: redis.Redis, token: str
) -> None:
    rows = spark.range(30_000).selectExpr("if(id = 25000, null, string(id)) value").coalesce(1)
    with pytest.raises(PythonException, match=r"row 25000 of partition 0.*column 'value' is null"):
        write(rows, queue=token)
    assert queue.pop() is None
    assert not staged(plain_client, token)


def test_direct_rows_are_there_at_once(
    numbered: Numbered, write: Write, queue: Queue, plain_client: redis.Redis, token: str
) -> None:
    rows = numbered(300, "if(id = 7, 3600, 0) wait")
    write(rows, queue=token, writeMode="direct", delayColumn="wait")
    assert {body["n"] for body in bodies(queue)} == set(range(300)) - {7}
    assert queue.stats().delayed == 1
    assert not staged(plain_client, token)


@pytest.mark.campaign
def test_a_message_goes_to_the_shard_of_its_id(
    numbered: Numbered, write: Write, plain_client: redis.Redis, token: str
) -> None:
    write(numbered(300), queue=token, shards=3)
    with ShardedQueue(plain_client, token, 3) as queue:
        for number, shard in enumerate(queue.shards()):
            ids = {body["id"] for body in bodies(shard)}
            assert ids == {f"r-{n}" for n in range(300) if shard_of(f"r-{n}", 3) == number}


def test_rows_go_to_a_topic(
    numbered: Numbered, write: Write, plain_client: redis.Redis, token: str
) -> None:
    write(numbered(1500).coalesce(1), topic=token, retentionMessages=1000)
    with Topic(plain_client, token) as topic:
        topic.subscribe("reader", "oldest")
        found = [message for _ in range(2) for message in topic.consume("reader", 500)]
    assert [message.index for message in found] == list(range(501, 1501))
    assert [json.loads(message.body)["n"] for message in found] == list(range(500, 1500))


def test_rows_go_to_a_delay_queue(
    numbered: Numbered, write: Write, plain_client: redis.Redis, token: str
) -> None:
    write(numbered(300, "id * 100 wait"), delayQueue=token, partitions=4, delayColumn="wait")
    with PartitionedDelayQueue(plain_client, token, 4) as delays:
        assert {message.key for message in delays.take(1000)} == {"r-0"}
        assert delays.stats().delayed == 299


def stream(
    rows: DataFrame, url: str, checkpoint: Path, mode: str = "append", **options: Any
) -> None:
    """Write all that a stream has, then end."""
    with quiet():
        writer = rows.writeStream.format("ackq").outputMode(mode).options(url=url, **options)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()


def test_a_stream_passes_messages_on_as_they_came(
    spark: SparkSession,
    url: str,
    queue: Queue,
    plain_client: redis.Redis,
    tmp_path: Path,
    token: str,
) -> None:
    raw = [b'{"id":"a","n":1}', b"no json", b'{"n":[2 ,3]}']
    queue.push_many(raw)
    with quiet():
        rows = spark.readStream.format("ackq").option("url", url).load(token)
    stream(rows, url, tmp_path / "checkpoint", queue=f"{token}-out")
    with Queue(plain_client, f"{token}-out") as out:
        assert [message.body for message in out.pop_many(10)] == raw
    assert queue.stats().ready == 0
