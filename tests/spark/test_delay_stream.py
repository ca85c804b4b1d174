"""The reader of a delay queue, driven as Spark drives it: deaths, consumers, lost messages."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from ackq.core import claim_groups
from ackq.delay import (
    DelayClaims,
    DelayEntry,
    DelayQueue,
    DelayStaging,
    PartitionedDelayQueue,
    claims,
)
from ackq.errors import ClaimLost
from tests.spark.batches import Batches
from tests.spark.engine import STAGES, Checkpoint, Died, Engine, Stage
from tests.staging.test_staging import commit_and_die
from tests.staging.test_staging import stage as staged
from tests.waiting import wait_until

Start = Callable[..., Engine]


@pytest.fixture
def start(start_on: Start, token: str) -> Start:
    """``start(checkpoint, **options)``: a driver of a query on the test's delay queue."""
    return lambda checkpoint, **options: start_on(checkpoint, **{"delayQueue": token, **options})


@pytest.fixture
def delayed(plain_client: redis.Redis, token: str) -> Iterator[DelayQueue]:
    with DelayQueue(plain_client, token) as queue:
        yield queue


@pytest.fixture
def parts(plain_client: redis.Redis, token: str) -> Iterator[PartitionedDelayQueue]:
    with PartitionedDelayQueue(plain_client, token, 3) as queue:
        yield queue


def push(queue: DelayQueue | PartitionedDelayQueue, count: int, first: int = 0) -> list[str]:
    """Push messages that are ready, in the opposite order of their keys, and return the keys."""
    keys = [f"k{999 - n:03}" for n in range(first, first + count)]
    queue.push_many(
        DelayEntry(key, {"n": int(key[1:])}, at=1000.0 + n) for n, key in enumerate(keys, first)
    )
    return keys


def planned(start: Start, log: Checkpoint, **options: Any) -> None:
    """Let a driver die, and its heartbeat with it, when its first batch is planned."""
    doomed = start(log, **options)
    doomed.run_until("planned", 0)
    doomed.stop()


@pytest.mark.parametrize("stage", STAGES)
def test_each_partition_has_a_part_of_every_batch(
    start: Start, parts: PartitionedDelayQueue, token: str, stage: Stage
) -> None:
    keys = push(parts, 30)
    log = Checkpoint()
    options = {"partitions": 3, "maxMessagesPerTrigger": 12}
    doomed = start(log, **options)
    doomed.run_until(stage, 1)
    last = start(log, **options)
    last.run()
    assert sorted(log.ids()) == sorted(keys)
    assert log.is_repeatable()
    assert {row["queue"] for row in log.rows()} == {f"{token}:{n}" for n in range(3)}
    rows = log.rows()
    for n in range(3):
        times = [row["ready_time"] for row in rows if row["queue"] == f"{token}:{n}"]
        assert times == sorted(times)
    assert parts.stats().in_flight == 0
    assert parts.claims() == []


def test_a_driver_that_dies_while_acking_deletes_the_rest_later(
    start: Start, delayed: DelayQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed.push_many(DelayEntry(f"{n:05}", b"x", at=1) for n in range(2500))
    log = Checkpoint()
    doomed = start(log)
    change, calls = claim_groups.change, []

    def dying(group: Any, script: str, *args: Any) -> Any:
        calls.append(script)
        if calls.count("delay/claim_ack") == 2:
            raise Died
        return change(group, script, *args)

    monkeypatch.setattr(claims, "change", dying)
    with pytest.raises(Died):
        doomed.run()
    monkeypatch.undo()
    assert delayed.stats().in_flight == 2200
    start(log).run()
    assert log.ids() == [f"{n:05}" for n in range(2500)]
    assert delayed.stats().in_flight == 0


def test_other_consumers_get_what_is_not_claimed(start: Start, delayed: DelayQueue) -> None:
    keys = push(delayed, 6)
    log = Checkpoint()
    planned(start, log, maxMessagesPerTrigger=4)
    taken = delayed.take(10)
    assert [each.key for each in taken] == keys[4:]
    delayed.release(taken[0])
    delayed.delete(taken[1])
    start(log).run()
    assert log.ids() == keys[:5]


def test_what_may_not_touch_a_leased_message_leaves_a_claim_alone(
    start: Start, delayed: DelayQueue
) -> None:
    keys = push(delayed, 4)
    log = Checkpoint()
    planned(start, log)
    assert delayed.cancel(*keys) == 0
    assert not delayed.reschedule(keys[0], delay=60)
    delayed.push_many([DelayEntry("new", b"{}", at=5000)])
    start(log).run()
    assert log.ids() == [*keys, "new"]


@pytest.mark.parametrize("loss", ["cancel", "purge"])
def test_a_message_that_is_canceled_in_flight_is_lost_to_its_claim(
    start: Start, delayed: DelayQueue, caplog: pytest.LogCaptureFixture, loss: str
) -> None:
    keys = push(delayed, 4)
    log = Checkpoint()
    planned(start, log)
    if loss == "cancel":
        delayed.cancel(keys[1], in_flight=True)
    else:
        delayed.purge()
    delayed.push(keys[1], {"n": -1})  # it is not the message of the claim
    with pytest.raises(ClaimLost, match=r"left its claim.*failOnDataLoss=false"):
        start(log).run()
    with caplog.at_level(logging.WARNING, "ackq.spark"):
        start(log, failOnDataLoss="false").run()
    first = [keys[0], *keys[2:]] if loss == "cancel" else []
    places = [0, 2, 3] if loss == "cancel" else []
    rows = log.written[0][-1]
    assert [(row["id"], row["position"]) for row in rows] == [*zip(first, places, strict=True)]
    assert log.ids() == [*first, keys[1]]
    assert "failOnDataLoss is false" in caplog.text
    assert "or they were canceled" in caplog.text
    assert delayed.stats().in_flight == 0


def test_a_claim_that_nobody_touched_is_replayed_after_its_lease(
    start: Start, delayed: DelayQueue
) -> None:
    keys = push(delayed, 3)
    log = Checkpoint()
    planned(start, log, claimTimeoutMs=1000)
    wait_until(lambda: delayed.stats().ready == 3, "the leases to end")
    start(log).run()
    assert log.ids() == keys


def test_claims_count_as_deliveries_and_the_limit_is_that_of_consumers(
    start: Start, plain_client: redis.Redis, token: str
) -> None:
    with DelayQueue(plain_client, token, max_receives=2) as queue:
        (key,) = push(queue, 1)
        for _ in range(2):
            (message,) = queue.take()
            queue.release(message)  # does not count
        for deliveries in (1, 2):
            planned(start, Checkpoint(), claimTimeoutMs=1000, groupId=f"g{deliveries}")
            (seen,) = queue.peek(1, "in_flight")
            assert seen.receive_count == deliveries
            wait_until(lambda: queue.stats().ready, "the lease to end")
        # A third delivery: a claim has no limit, and a release takes it back.
        planned(start, Checkpoint(), groupId="g3")
        assert queue.peek(1, "in_flight")[0].receive_count == 3
        assert queue.release_claims("g3") == 1
        assert queue.peek(1)[0].receive_count == 2
        assert queue.take() == []
        (letter,) = queue.dead_letters(10)
        assert (letter.id, letter.reason, letter.receive_count) == (key, "max receives", 2)


def test_an_interrupted_release_is_finished_by_the_next_query(
    start: Start, delayed: DelayQueue, url: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = push(delayed, 3)
    planned(start, Checkpoint())

    def dying(*_: Any) -> Any:
        raise Died

    monkeypatch.setattr(claims, "_return", dying)
    with DelayClaims.from_url(url, token, "spark") as operator, pytest.raises(Died):
        operator.release()
    monkeypatch.undo()
    assert delayed.take() == []
    log = Checkpoint()
    start(log).run()
    assert log.ids() == keys


def test_the_columns_of_a_delay_queue(start: Start, delayed: DelayQueue) -> None:
    delayed.push("a", {"id": "of the body", "n": 7}, at=1000.25)
    delayed.push("\udcff", b"\xff", at=2000)
    log = Checkpoint()
    start(log).run()
    first, second = log.rows()
    assert list(first) == ["id", "value", "queue", "batch", "position", "ready_time"]
    assert (first["id"], first["queue"], first["batch"], first["position"]) == (
        "a",
        delayed.name,
        second["batch"],
        0,
    )
    assert first["ready_time"].timestamp() == 1000.25
    assert (second["id"], second["value"]) == ("\ufffd", "\ufffd")
    delayed.push("b", {"n": 8}, at=3000)
    schema = StructType()
    schema.add("n", LongType()).add("_id", StringType()).add("_ready_time", TimestampType())
    start(log, schema=schema, includeMetadata="true").run()
    last = log.rows()[-1]
    assert (last["n"], last["_id"], last["_ready_time"].timestamp()) == (8, "b", 3000)


@pytest.mark.parametrize("partitions", [None, 3])
def test_the_rows_of_a_writer_that_died_are_moved_in(
    start: Start, plain_client: redis.Redis, token: str, partitions: int | None
) -> None:
    with DelayStaging(plain_client, token, "w", partitions=partitions) as staging:
        rows = [staging.row(f"k{n}", 1_000_000 + n, b"x") for n in range(5)]
        commit_and_die(staging, 0, [staged(staging, 0, rows, "0-a")], requests=2)
    log = Checkpoint()
    start(log, **({"partitions": partitions} if partitions else {})).run()
    assert sorted(log.ids()) == [f"k{n}" for n in range(5)]


def test_progress_counts_claimed_messages_apart(start: Start, delayed: DelayQueue) -> None:
    push(delayed, 5)
    delayed.push("later", b"x", delay=3600)
    delayed.take(1)
    engine = start(Checkpoint(), maxMessagesPerTrigger=3)
    engine.run_until("planned", 0)
    found = engine._reader.reportLatestOffset()
    assert found is not None
    counted = {name: found[name] for name in ("ready", "in_flight", "claimed", "delayed", "dead")}
    assert counted == {"ready": 1, "in_flight": 1, "claimed": 3, "delayed": 1, "dead": 0}


def test_spark_reads_a_delay_queue(
    spark: SparkSession, parts: PartitionedDelayQueue, url: str, batches: Batches
) -> None:
    keys = push(parts, 20)
    parts.push("later", b"{}", delay=3600)
    options: dict[str, str | int] = {"url": url, "delayQueue": parts.name, "partitions": 3}
    frame = spark.readStream.format("ackq").options(maxMessagesPerTrigger=15, **options).load()
    batches.fail_after(1)
    with pytest.raises(StreamingQueryException, match="on purpose"):
        batches.run(frame)
    batches.run(frame)
    assert sorted(row.id for row in batches.rows()) == sorted(keys)
    first, second = batches.attempts(1)
    assert sorted(first) == sorted(second)
    (shown,) = spark.read.format("ackq").options(state="delayed", **options).load().collect()
    assert shown.id == "later"
