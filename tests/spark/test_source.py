"""The queue as a stream: limits, acks, replay, fencing, and Redis that goes away."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from ackq import Queue
from tests.servers.private import private_server
from tests.spark.batches import Batches
from tests.waiting import wait_until

Reader = Callable[..., DataStreamReader]


@pytest.fixture
def reader(spark: SparkSession, url: str) -> Reader:
    """``reader(**options)``: a stream from this session's server."""

    def make(**options: Any) -> DataStreamReader:
        return spark.readStream.format("ackq").options(url=url, **options)

    return make


def test_a_list_filled_by_rpush_is_read_in_its_order_and_written_to_another(
    reader: Reader,
    spark: SparkSession,
    plain_client: redis.Redis,
    name: str,
    url: str,
    batches: Batches,
) -> None:
    bodies = [b'{"id":"m%d"}' % n for n in range(5)]
    plain_client.rpush(name, *bodies)
    batches.run(reader(popFrom="left", maxMessagesPerTrigger=3).load(name))
    assert [row.id for row in batches.rows()] == [f"m{n}" for n in range(5)]
    frame = spark.createDataFrame([(body.decode(),) for body in bodies], "value string").coalesce(1)
    sink = frame.write.format("ackq").mode("append").options(url=url, popFrom="left")
    sink.save(f"{name}-out")
    with Queue(plain_client, f"{name}-out", pop_from="left") as queue:
        assert [message.body for message in queue.pop_many(5)] == bodies


def test_a_poison_row_ends_up_in_the_corrupt_column_and_blocks_nothing(
    reader: Reader, queue: Queue, batches: Batches
) -> None:
    queue.push_many([{"id": "a", "n": 1}, b"\xff{", {"id": "b", "n": "two"}, {"id": "c", "n": 3}])
    schema = "id string, n int, _corrupt_record string, _position bigint, _body binary"
    stream = reader(includeMetadata=True).schema(schema).load(queue.name)
    batches.run(stream)
    shown = {row._position: (row.id, row.n, row._corrupt_record) for row in batches.rows()}
    assert shown[0] == ("a", 1, None)
    assert shown[1] == (None, None, "\ufffd{")
    assert shown[2] == ("b", None, '{"id":"b","n":"two"}')
    assert shown[3] == ("c", 3, None)
    assert next(row._body for row in batches.rows() if row._position == 1) == b"\xff{"
    assert queue.stats().in_flight == 0


def test_a_batch_that_failed_is_replayed_exactly(
    reader: Reader, queue: Queue, batches: Batches
) -> None:
    queue.push_many({"n": n} for n in range(50))
    stream = reader(maxMessagesPerTrigger=20, fetchSize=7, minPartitions=3).load(queue.name)
    batches.fail_after(1)
    with pytest.raises(Exception, match="on purpose"):
        batches.run(stream)
    queue.push_many({"n": n} for n in range(50, 60))
    batches.run(stream)
    first, second = batches.attempts(1)
    assert first == second
    assert sorted(row.position for row in second) == list(range(20))
    assert len({row.id for row in batches.rows()}) == 60


@pytest.mark.campaign
def test_two_groups_share_a_queue(reader: Reader, queue: Queue, tmp_path: Path) -> None:
    one, other = Batches(tmp_path / "one"), Batches(tmp_path / "other")
    ids = queue.push_many({"n": n} for n in range(10))
    one.run(reader(groupId="one").load(queue.name))
    ids += queue.push_many({"n": n} for n in range(10))
    other.run(reader(groupId="other").load(queue.name))
    assert [row.id for row in (*one.rows(), *other.rows())] == ids


def test_a_query_outlives_a_restart_of_redis(spark: SparkSession, tmp_path: Path) -> None:
    with private_server(tmp_path / "redis") as server:
        batches = Batches(tmp_path / "checkpoint")
        with Queue.from_url(server.url, "jobs") as queue:
            queue.push_many({"n": n} for n in range(10))
            stream = spark.readStream.format("ackq").option("url", server.url).load("jobs")
            with batches.running(stream) as query:
                wait_until(lambda: len(batches.rows()) == 10, "the rows before")
                server.kill()
                server.start()
                queue.push_many({"n": n} for n in range(10, 20))
                wait_until(
                    lambda: query.exception() or len(batches.rows()) == 20, "the rows after", 30
                )
                assert query.exception() is None
        assert len({row.id for row in batches.rows()}) == 20


@pytest.mark.campaign
def test_progress_shows_how_much_waits(reader: Reader, queue: Queue, batches: Batches) -> None:
    from ackq.spark.metrics import source_progress

    queue.push_many({"n": n} for n in range(30))
    query = batches.run(reader(maxMessagesPerTrigger=20).load(queue.name))
    first = source_progress(query.recentProgress[0].sources[0])
    assert first is not None
    assert (first.rows, first.claimed, first.lag) == (20, 20, 10)
    assert 0 < time.time() - first.batch / 1_000_000 < 60


@pytest.mark.campaign
def test_leases_are_renewed_while_a_batch_runs(
    reader: Reader, queue: Queue, batches: Batches
) -> None:
    queue.push({"id": "a"})
    with (
        batches.held() as release,
        batches.running(reader(claimTimeoutMs=1000).load(queue.name)) as query,
    ):
        wait_until(lambda: queue.stats().claimed == 1, "the claim")
        first = queue.claims()[0].lease_ends_in
        assert first is not None
        # The lease is renewed to later than it could last by itself.
        began = queue.claims()[0].batch
        seen: list[float] = []
        wait_until(lambda: _renewals(queue, seen) >= 3, "three renewals")
        assert queue.pop() is None
        assert queue.claims()[0].batch == began
        release()
        wait_until(lambda: batches.rows(), "the row")
        assert query.exception() is None


def _renewals(queue: Queue, seen: list[float]) -> int:
    """Count how often the lease was renewed since the first call."""
    left = queue.claims()[0].lease_ends_in
    assert left is not None
    if not seen or left > seen[-1]:
        seen.append(left)
    else:
        seen[-1] = left
    return len(seen)
