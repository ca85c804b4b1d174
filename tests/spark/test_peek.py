"""``spark.read`` shows the messages of a queue and takes none."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import redis
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ackq import Queue
from ackq.delay import DelayEntry, DelayQueue, PartitionedDelayQueue
from ackq.membership.shards import shard_names
from ackq.queue.claims_client import Claims
from ackq.sharded import ShardedQueue
from ackq.spark.source import AckqDataSource
from tests.waiting import wait_until


def look(schema: StructType | None = None, /, **options: Any) -> list[dict[str, Any]]:
    """Return the rows that ``spark.read`` shows, without a JVM."""
    source = AckqDataSource({name.lower(): str(value) for name, value in options.items()})
    reader = source.reader(schema or source.schema())
    rows: Iterator[Any] = (
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()  # type: ignore[union-attr]
    )
    return list(rows)


def test_the_default_shows_what_a_stream_would_read(queue: Queue, url: str) -> None:
    ids = queue.push_many({"n": n} for n in range(1200))
    rows = look(url=url, queue=queue.name)
    assert [row["id"] for row in rows] == ids
    assert [row["position"] for row in rows] == list(range(1200))
    assert list(rows[0]) == ["id", "value", "queue", "batch", "position"]
    assert queue.stats().ready == 1200


def test_each_state_shows_its_own(queue: Queue, url: str) -> None:
    queue.push_many([{"id": "flying"}, {"id": "lost"}, {"id": "waiting"}])
    queue.push({"id": "later"}, delay=60)
    flying, lost = queue.pop_many(2)
    queue.reject(lost, reason="no good")
    shown = {
        state: look(url=url, queue=queue.name, state=state)
        for state in ("ready", "in_flight", "delayed", "dead")
    }
    assert {state: [row["id"] for row in rows] for state, rows in shown.items()} == {
        "ready": ["waiting"],
        "in_flight": ["flying"],
        "delayed": ["later"],
        "dead": ["lost"],
    }
    dead = shown["dead"][0]
    assert (dead["reason"], dead["state"], dead["receive_count"]) == ("no good", "dead", 1)
    assert dead["at"] is not None
    assert dead["entry"] == queue.dead_letters()[0].entry
    assert shown["in_flight"][0]["at"].timestamp() == pytest.approx(flying.lease_expires_at)
    assert shown["ready"][0]["at"] is None


def test_claims_are_in_flight(queue: Queue, url: str) -> None:
    ids = queue.push_many({"n": n} for n in range(3))
    with Claims.from_url(url, queue.name, "spark") as claims:
        claims.begin()
        claims.claim(0, messages=2)
        shown = look(url=url, queue=queue.name, state="in_flight")
        assert sorted(row["id"] for row in shown) == sorted(ids[:2])


def test_a_schema_parses_and_metadata_shows_the_state(queue: Queue, url: str) -> None:
    queue.push({"id": "a", "n": 5})
    message = queue.pop()
    assert message is not None
    queue.reject(message, reason="why")
    schema = StructType().add("n", "long").add("_reason", "string").add("_state", "string")
    rows = look(schema, url=url, queue=queue.name, state="dead", includeMetadata="true")
    assert rows == [{"n": 5, "_reason": "why", "_state": "dead"}]


def test_every_shard_is_looked_at(url: str, token: str) -> None:
    with ShardedQueue.from_url(url, token, 3) as sharded:
        ids = [sharded.push({"n": n}) for n in range(30)]
        rows = look(url=url, queue=token, shards=3)
        assert {row["id"] for row in rows} == set(ids)
        assert {row["queue"] for row in rows} == set(shard_names(token, 3))


def test_a_delay_queue_is_looked_at_by_its_keys(url: str, name: str) -> None:
    with DelayQueue.from_url(url, name) as queue:
        queue.push_many(
            [DelayEntry("later", b'{"n": 4}', at=4e9), DelayEntry("\udcff", b"x", at=2)]
        )
        queue.push("flying", b"{}", at=1)
        queue.push("lost", b'{"id": "of the body"}', at=1)
        flying, lost = queue.take(2)
        queue.reject(lost, reason="no good")
        shown = {
            state: look(url=url, delayQueue=name, state=state)
            for state in ("ready", "in_flight", "delayed", "dead")
        }
        assert {state: [row["id"] for row in rows] for state, rows in shown.items()} == {
            "ready": ["\ufffd"],
            "in_flight": ["flying"],
            "delayed": ["later"],
            "dead": ["lost"],
        }
        (plain,) = look(url=url, delayQueue=name)
        assert plain.keys() == {"id", "value", "queue", "batch", "position", "ready_time"}
        assert (plain["id"], plain["batch"], plain["ready_time"].timestamp()) == ("\ufffd", None, 2)
        assert shown["delayed"][0]["at"].timestamp() == 4e9
        assert shown["in_flight"][0]["at"].timestamp() == pytest.approx(flying.lease_expires_at)
        assert (shown["dead"][0]["reason"], shown["dead"][0]["queue"]) == ("no good", name)
        schema = StructType().add("n", "long").add("_id", "string")
        options = {"url": url, "delayQueue": name, "state": "delayed", "includeMetadata": "true"}
        assert look(schema, **options) == [{"n": 4, "_id": "later"}]
        assert queue.stats() == replace(queue.stats(), ready=1, in_flight=1, delayed=1, dead=1)


@pytest.mark.parametrize("fetch", [7, 5000])
def test_each_partition_of_a_delay_queue_is_one_of_sparks(url: str, name: str, fetch: int) -> None:
    with PartitionedDelayQueue.from_url(url, name, 4) as queue:
        queue.push_many(DelayEntry(f"{n:04}", b"x", 60 + n) for n in range(3000))
        options = {"url": url, "delayQueue": name, "partitions": 4, "state": "delayed"}
        rows = look(fetchSize=fetch, **options)
        assert sorted(row["id"] for row in rows) == [f"{n:04}" for n in range(3000)]
        by_partition = {
            part: [row["id"] for row in rows if row["queue"] == f"{name}:{part}"]
            for part in range(4)
        }
        assert all(ids == sorted(ids) and ids for ids in by_partition.values())
        assert sum(map(len, by_partition.values())) == 3000
        assert {row["id"] for row in look(**options)} == {row["id"] for row in rows}


class Counted(DelayQueue):
    """A delay queue that remembers the sizes of its pages."""

    sizes: ClassVar[list[int]] = []

    def peek_page(self, n: int = 1000, *rest: Any, **named: Any) -> Any:
        self.sizes.append(n)
        return super().peek_page(n, *rest, **named)


def test_leased_messages_in_between_cost_no_batches_and_no_small_pages(
    url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DelayQueue.from_url(url, name) as queue:
        queue.push_many(DelayEntry(f"{n:04}", b"x") for n in range(2500))
        held = [each.key for _ in range(3) for each in queue.take(1000)]
        queue.push_many(DelayEntry(f"late {n:02}", b"x", 3600) for n in range(12))
    monkeypatch.setattr("ackq.spark.peek.DelayQueue", Counted)
    Counted.sizes.clear()
    source = AckqDataSource({"url": url, "delayqueue": name, "state": "delayed"})
    reader = source.reader(source.schema())
    # Some more came after the plan: it is as many as were planned all the same.
    with DelayQueue.from_url(url, name) as queue:
        parts = reader.partitions()
        queue.push_many(DelayEntry(f"new {n}", b"x", 1800) for n in range(5))
    batches: list[Any] = [batch for part in parts for batch in reader.read(part)]
    assert len(held) == 2500
    assert [batch.num_rows for batch in batches] == [12]
    assert batches[0].column("id").to_pylist() == [
        *(f"new {n}" for n in range(5)),
        *(f"late {n:02}" for n in range(7)),
    ]
    assert Counted.sizes == [500] * 3


def test_a_time_that_is_no_timestamp_is_null(
    plain_client: redis.Redis, url: str, name: str
) -> None:
    ready = {"-inf": -math.inf, "-1e300": -1e300, "-1e12": -1e12, "first": -62_135_596_800}
    delayed = {"last": 253_402_300_799, "after": 253_402_300_800, "ms": 1.7e12, "inf": math.inf}
    plain_client.zadd(f"{name}:z", {**ready, **delayed})
    options = {"url": url, "delayQueue": name}
    shown = [*look(**options, state="ready"), *look(**options, state="delayed")]
    times = {row["id"]: row["at"] for row in shown}
    assert [key for key, at in times.items() if at] == ["first", "last"]
    assert times["first"].year == 1
    assert times["last"].year == 9999
    assert times.keys() == {*ready, *delayed}


def test_expired_messages_are_ready(queue: Queue, url: str) -> None:
    queue.push({"id": "a"})
    queue.pop(visibility_timeout=0.001)
    wait_until(lambda: queue.stats().expired, "the lease to end")
    assert [row["id"] for row in look(url=url, queue=queue.name, state="ready")] == ["a"]


def test_all_dead_letters_are_shown_in_their_order(queue: Queue, url: str) -> None:
    ids = queue.push_many({"n": n} for n in range(1003))
    while taken := queue.pop_many(1000):
        queue.reject(*taken)
    assert [row["id"] for row in look(url=url, queue=queue.name, state="dead")] == ids


def test_spark_may_run_a_look_as_often_as_it_likes(
    spark: SparkSession, queue: Queue, url: str
) -> None:
    queue.push_many({"id": f"m{n}", "n": n} for n in range(20))
    frame = spark.read.format("ackq").option("url", url).schema("id string, n int")
    table = frame.load(queue.name).filter("n >= 5")
    assert table.count() == 15
    assert table.agg({"n": "max"}).first()[0] == 19  # type: ignore[index]
    assert queue.stats().ready == 20
    assert spark.read.format("ackq").options(url=url, state="dead").load(queue.name).count() == 0
