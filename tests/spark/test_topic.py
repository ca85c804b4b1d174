"""A topic as a source: batches are replayed by their indexes, whatever process dies."""

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest
import redis
from pyspark.sql import SparkSession

from ackq.errors import ConfigurationError, PlaceLost
from ackq.spark import offsets
from ackq.topic import Topic
from ackq.topic.staging_client import TopicStaging
from tests.spark.batches import Batches
from tests.spark.engine import STAGES, Checkpoint, Died, Engine, Stage
from tests.staging.test_staging import commit_and_die, rows, stage

Start = Callable[..., Engine]


@pytest.fixture
def topic(plain_client: redis.Redis, token: str) -> Iterator[Topic]:
    with Topic(plain_client, token) as topic:
        yield topic


@pytest.fixture
def start(start_on: Start, token: str) -> Start:
    """``start(checkpoint, **options)``: a driver of a query on the test's topic."""
    return lambda checkpoint, **options: start_on(
        checkpoint, **{"topic": token, "pollIntervalMs": 1, **options}
    )


def test_a_stream_publishes_the_rows_of_a_writer_that_died(
    start: Start, topic: Topic, plain_client: redis.Redis
) -> None:
    with TopicStaging(plain_client, topic.name, "query") as writer:
        commit_and_die(writer, 0, [stage(writer, 0, rows(2500))], 3)
    assert topic.newest() < 2500
    log = Checkpoint()
    start(log).run()
    assert indexes(log) == list(range(1, 2501))


def publish(topic: Topic, *numbers: int) -> None:
    topic.publish_many({"id": f"m{n}", "n": n} for n in numbers)


def indexes(checkpoint: Checkpoint) -> list[int]:
    return [row["offset"] for row in checkpoint.rows()]


@pytest.mark.parametrize("starting", ["earliest", "latest", "3"])
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("stage", STAGES)
def test_a_driver_that_dies_anywhere_reads_each_index_once(
    start: Start, topic: Topic, stage: Stage, batch: int, starting: str
) -> None:
    publish(topic, *range(1, 8))
    log = Checkpoint()
    options = {"startingOffsets": starting, "maxMessagesPerTrigger": 2, "fetchSize": 1}
    begins = {"earliest": 1, "latest": 8, "3": 3}[starting]
    doomed = start(log, **options)
    doomed.die_at(stage, batch)
    with contextlib.suppress(Died):
        doomed.run()
    resolved_again = starting == "latest" and stage == "claimed" and batch == 0
    publish(topic, *range(8, 12))
    start(log, **options).run()
    publish(topic, 12)
    start(log, **options).run()
    # Nothing was planned yet, so "latest" is resolved when the query finally starts.
    assert indexes(log) == list(range(12 if resolved_again else begins, 13))
    assert log.is_repeatable()


def test_latest_is_pinned_before_anything_is_published(start: Start, topic: Topic) -> None:
    log = Checkpoint()
    start(log, startingOffsets="latest").run()
    publish(topic, 1, 2)
    start(log, startingOffsets="latest").run()
    assert indexes(log) == [1, 2]


def test_rows_name_the_topic_and_the_index(start: Start, topic: Topic) -> None:
    publish(topic, 1)
    topic.publish(b"\x00bytes")
    log = Checkpoint()
    start(log).run()
    first, second = log.rows()
    assert first == {"id": "m1", "value": '{"id":"m1","n":1}', "topic": topic.name, "offset": 1}
    assert (second["id"], second["value"], second["offset"]) == (None, "\x00bytes", 2)


def test_earliest_is_the_oldest_message_left(start: Start, topic: Topic) -> None:
    publish(topic, *range(1, 11))
    topic.trim(4)
    log = Checkpoint()
    start(log).run()
    assert indexes(log) == [7, 8, 9, 10]


def test_messages_trimmed_before_they_are_read_end_the_query_by_default(
    start: Start, topic: Topic
) -> None:
    publish(topic, 1, 2)
    log = Checkpoint()
    start(log).run()
    publish(topic, *range(3, 11))
    topic.trim(4)
    with pytest.raises(PlaceLost, match="index 3, and possibly more, expired"):
        start(log).run()
    start(log, failOnDataLoss=False).run()
    assert indexes(log) == [1, 2, 7, 8, 9, 10]


def test_a_topic_that_was_created_again_ends_the_query_by_default(
    start: Start, topic: Topic, plain_client: redis.Redis, token: str
) -> None:
    publish(topic, *range(1, 6))
    log = Checkpoint()
    start(log).run()
    plain_client.delete(*plain_client.keys(f"{token}*"))
    publish(topic, 1, 2)
    with pytest.raises(PlaceLost, match="created again"):
        start(log).run()
    start(log, failOnDataLoss=False).run()
    assert indexes(log) == [1, 2, 3, 4, 5, 1, 2]


def test_a_checkpoint_of_a_queue_is_refused(start: Start, topic: Topic) -> None:
    offset = offsets.make(f"queue '{topic.name}', group 'spark'", batch=1, rows=1)
    log = Checkpoint(offsets=[json.dumps(offset)], commits=1)
    with pytest.raises(ConfigurationError, match="not to topic"):
        start(log).step()


def test_a_checkpoint_of_another_topic_is_refused(
    start: Start, topic: Topic, plain_client: redis.Redis
) -> None:
    publish(topic, *range(1, 6))
    log = Checkpoint()
    start(log).run()
    with Topic(plain_client, f"{topic.name}-renamed") as renamed:
        publish(renamed, 1, 2)
        with pytest.raises(ConfigurationError, match="use a new checkpoint"):
            start(log, topic=renamed.name).step()


def test_it_runs_in_spark_as_a_stream_and_as_a_table(
    spark: SparkSession, topic: Topic, url: str, batches: Batches
) -> None:
    publish(topic, *range(1, 21))
    stream = spark.readStream.format("ackq").options(url=url, topic=topic.name)
    batches.run(stream.option("maxMessagesPerTrigger", 15).schema("n int").load())
    assert [row.n for row in batches.rows()] == list(range(1, 21))
    table = spark.read.format("ackq").options(
        url=url, topic=topic.name, startingOffsets=5, endingOffsets=8
    )
    assert [row.offset for row in table.load().collect()] == [5, 6, 7, 8]


@pytest.mark.campaign
def test_a_table_of_an_empty_range_has_no_rows(spark: SparkSession, topic: Topic, url: str) -> None:
    table = spark.read.format("ackq").options(url=url, topic=topic.name)
    assert table.load().collect() == []


def test_a_batch_of_a_topic_is_full_at_its_bytes(start: Start, topic: Topic) -> None:
    topic.publish_many([b"x" * size for size in (40, 60, 10, 250, 1)])
    log = Checkpoint()
    start(log, maxBytesPerTrigger=100).run()
    assert log.sizes() == [2, 2, 1]
    assert indexes(log) == [1, 2, 3, 4, 5]


def test_a_batch_of_a_topic_waits_for_its_minimum(start: Start, topic: Topic) -> None:
    publish(topic, 1, 2)
    log = Checkpoint()
    options = {"minMessagesPerTrigger": 3, "pollIntervalMs": 1}
    engine = start(log, **options, maxTriggerDelay="1h")
    assert not engine.step()
    publish(topic, 3)
    assert engine.step()
    publish(topic, 4)
    assert not engine.step()
    assert start(log, **options, maxTriggerDelay="0s").step()
    assert log.sizes() == [3, 1]
