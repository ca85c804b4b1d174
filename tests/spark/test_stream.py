"""The reader of a queue, driven as Spark drives it, without a JVM: deaths, limits, refusals."""

import contextlib
import json
import logging
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from ackq import Queue
from ackq.delay import DelayQueue
from ackq.errors import CheckpointMismatch, ConfigurationError, Fenced
from ackq.membership.shards import shard_names
from ackq.queue.claims_client import Claims
from ackq.sharded import ShardedQueue
from ackq.spark import offsets, shards
from ackq.spark.shards import STEP, Shards
from ackq.spark.source import AckqDataSource
from ackq.topic import Topic
from tests.servers.private import private_server
from tests.spark.engine import STAGES, Checkpoint, Died, Engine, Stage
from tests.waiting import wait_until

Start = Callable[..., Engine]

#: A number of a claim that is ahead of the clock: in the year 2033.
LATE = 2_000_000_000_000_000


@pytest.fixture
def start(start_on: Start, token: str) -> Start:
    """``start(checkpoint, **options)``: a driver of a query on the test's queue."""
    return lambda checkpoint, **options: start_on(checkpoint, **{"queue": token, **options})


def test_a_new_checkpoint_is_offered_all_that_a_dead_query_left_in_order(
    start: Start, queue: Queue
) -> None:
    ids = queue.push_many({"n": n} for n in range(25))
    options = {"ackMode": "commit", "maxMessagesPerTrigger": 10}
    doomed = start(Checkpoint(), **options)
    doomed.run_until("planned", 1)
    assert queue.stats().claimed == 10
    doomed = start(Checkpoint(), **options)
    doomed.run_until("claimed", 1)
    assert queue.stats().claimed == 15
    log = Checkpoint()
    start(log, **options).run()
    assert log.ids() == ids[10:]


def test_a_driver_that_dies_between_two_shards_loses_nothing(
    start: Start, url: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ShardedQueue.from_url(url, token, 2) as sharded:
        ids = [sharded.push({"n": n}) for n in range(40)]
        log = Checkpoint()
        doomed = start(log, shards=2, maxMessagesPerTrigger=20)
        claim, calls = Claims.claim, []

        def dying(self: Claims, *args: Any, **settings: Any) -> Any:
            calls.append(self)
            if len(calls) == 2:
                raise Died
            return claim(self, *args, **settings)

        monkeypatch.setattr(Claims, "claim", dying)
        with pytest.raises(Died):
            doomed.run()
        monkeypatch.undo()
        start(log, shards=2, maxMessagesPerTrigger=20).run()
        assert sorted(log.ids()) == sorted(ids)
        assert sharded.stats().in_flight == 0


def test_a_heartbeat_that_is_fenced_ends_the_query(
    start: Start, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.push_many({"n": n} for n in range(2))
    log = Checkpoint()
    first = start(log, maxMessagesPerTrigger=1, claimTimeoutMs=1000)
    first.step()
    start(Checkpoint()).step()
    heartbeat = first._reader._driver.heartbeat  # type: ignore[attr-defined]
    wait_until(lambda: heartbeat._fenced, "the heartbeat to notice")
    with pytest.raises(Fenced):
        first._reader.reportLatestOffset()


def test_an_offset_of_another_version_is_refused(start: Start, queue: Queue) -> None:
    log = Checkpoint(offsets=['{"version": 1, "batch": 1, "rows": 1}'], commits=1)
    with pytest.raises(ConfigurationError, match="version 1, but this ackq reads version 2"):
        start(log).step()


def test_a_checkpoint_of_a_topic_is_refused(start: Start, queue: Queue) -> None:
    offset = offsets.make("topic 'prices'", first=1, index=3)
    log = Checkpoint(offsets=[json.dumps(offset)], commits=1)
    with pytest.raises(ConfigurationError, match="belongs to topic 'prices', not to queue"):
        start(log).step()


@pytest.mark.parametrize("other", ["queue", "groupId"])
def test_a_checkpoint_of_another_queue_or_group_acks_nothing(
    start: Start, queue: Queue, url: str, plain_client: redis.Redis, token: str, other: str
) -> None:
    queue.push_many({"n": n} for n in range(6))
    log = Checkpoint()
    start(log, maxMessagesPerTrigger=2).run()
    assert log.commits == 3
    name, group = (f"{token}-two", "spark") if other == "queue" else (token, "two")
    with Queue(plain_client, name) as second, Claims.from_url(url, name, group) as dead:
        second.push({"id": "unread"})
        dead.begin()
        assert dead.claim(0, messages=1) is not None
        with pytest.raises(ConfigurationError, match="use a new checkpoint"):
            start(log, **{other: name if other == "queue" else group}).step()
        assert second.stats().claimed == 1
        dead.release()
        assert [each.id for each in second.peek()] == ["unread"]


def _restored(log: Checkpoint, offsets: int, commits: int) -> Checkpoint:
    """Return a checkpoint as it was when it had so many files; the sink keeps what it has."""
    return Checkpoint(log.offsets[:offsets], commits, log.written)


@pytest.mark.parametrize("mode", ["eager", "commit"])
@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_checkpoint_that_is_older_than_redis_is_refused(
    start: Start, queue: Queue, mode: str, lost: int
) -> None:
    queue.push_many({"n": n} for n in range(12))
    log, options = Checkpoint(), {"ackMode": mode, "maxMessagesPerTrigger": 2}
    start(log, **options).run()
    restored = _restored(log, 6 - lost, 6 - lost)
    is_behind = lost > (0 if mode == "eager" else 1)  # the next batch acks the last one
    queue.push({"id": "new"})
    before = queue.claims(), queue.stats().ready
    engine = start(restored, **options)
    if not is_behind:
        engine.run()
        assert len(restored.offsets) == 7
        return
    with pytest.raises(CheckpointMismatch, match="the checkpoint is older than Redis"):
        engine.run()
    assert [claim.batch for claim in queue.claims()] == [claim.batch for claim in before[0]]
    assert queue.stats().ready == before[1]
    log = Checkpoint()
    start(log, **options).run()
    assert log.ids()[-1] == "new"


def test_a_copy_of_a_checkpoint_that_another_went_on_with_is_refused(
    start: Start, queue: Queue
) -> None:
    queue.push_many({"n": n} for n in range(12))
    log, options = Checkpoint(), {"maxMessagesPerTrigger": 2}
    start(log, **options).run_until("claimed", 2)
    copy = _restored(log, 2, 2)
    start(log, **options).run_until("claimed", 5)
    with pytest.raises(CheckpointMismatch):
        start(copy, **options).run()
    start(log, **options).run()
    assert len(log.ids()) == len(set(log.ids())) == 12


def test_a_batch_that_is_planned_and_acked_needs_its_messages_or_is_refused(
    start: Start, queue: Queue, plain_client: redis.Redis
) -> None:
    ids = queue.push_many({"n": n} for n in range(4))
    log, options = Checkpoint(), {"maxMessagesPerTrigger": 2}
    start(log, **options).run_until("claimed", 1)
    start(_restored(log, 1, 0), **options).run_until("written", 0)  # kept for ten minutes
    assert log.written[0][0] == log.written[0][1]
    plain_client.delete(f"{queue.name}CLAIM:spark:{log.rows()[0]['batch']}")
    with pytest.raises(CheckpointMismatch, match="folder commits"):
        start(_restored(log, 1, 0), **options).run()
    start(log, **options).run()
    assert log.ids() == ids


@pytest.mark.parametrize("loss", [True, False])
def test_a_redis_that_is_older_than_the_checkpoint_is_refused_or_read_again(
    start: Start, queue: Queue, plain_client: redis.Redis, loss: bool
) -> None:
    queue.push_many({"n": n} for n in range(4))
    log, options = Checkpoint(), {"maxMessagesPerTrigger": 2, "failOnDataLoss": not loss}
    start(log, **options).run_until("logged", 0)
    claimed = queue.stats().claimed
    backup = {key: plain_client.dump(key) for key in plain_client.scan_iter(f"{queue.name}*")}
    start(log, **options).run()
    for key in plain_client.scan_iter(f"{queue.name}*"):
        plain_client.delete(key)
    for key, value in backup.items():
        plain_client.restore(key, 0, value or b"")
    if not loss:
        with pytest.raises(CheckpointMismatch, match="Redis is older than the checkpoint"):
            start(log, **options).run()
        assert queue.stats().claimed == claimed
        return
    start(log, **options).run()
    assert queue.stats().ready == queue.stats().claimed == 0


def test_numbers_of_claims_are_not_used_again_by_a_redis_that_was_restored(
    start: Start, queue: Queue, plain_client: redis.Redis
) -> None:
    numbers = set()
    for _ in range(2):
        with Claims(plain_client, queue.name, "spark") as ahead:
            ahead.begin()
            queue.push({"id": "a"})
            plain_client.hset(f"{queue.name}CLAIMS:spark", "last", LATE)
            plain_client.hset(f"{queue.name}CLAIMS:spark", "acked", LATE)
        log = Checkpoint()
        start(log).run()
        numbers.add(log.rows()[0]["batch"])
    assert len(numbers) == 2


@pytest.mark.parametrize("mode", ["eager", "commit"])
def test_a_lease_that_ended_before_its_batch_was_done_is_logged(
    start: Start, queue: Queue, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    queue.push_many({"n": n} for n in range(3))
    # It sends no heartbeats, like a driver that was frozen.
    engine = start(Checkpoint(), maxMessagesPerTrigger=1, claimTimeoutMs=1000, ackMode=mode)
    engine.step()
    engine.stop()
    wait_until(lambda: queue.stats().ready == 3, "the lease to end")
    assert len(queue.pop_many(3)) == 3
    queue.push({"id": "next"})
    with caplog.at_level(logging.WARNING, "ackq.spark"):
        engine.step()
        engine.step()
    assert re.search(r"1 of 1 messages up to batch \d{16} were no longer claimed", caplog.text)


def test_a_query_that_reads_its_queue_twice_ends_before_its_first_batch(
    queue: Queue, url: str, token: str
) -> None:
    queue.push_many({"n": n} for n in range(2))
    source = AckqDataSource({"url": url, "queue": token})
    left, right = (source.streamReader(source.schema()) for _ in range(2))
    try:
        ends = []
        for side in (left, right):
            # Spark asks both for their offsets, and then for their partitions.
            begin = side.initialOffset()
            ends.append((side, begin, side.latestOffset(begin, side.getDefaultReadLimit())))
        side, begin, end = ends[0]
        with pytest.raises(Fenced, match="reads the queue twice, as in a self-join"):
            side.partitions(begin, end)
    finally:
        left.stop()
        right.stop()
    assert queue.stats().claimed == 2


def test_a_paused_queue_gives_nothing(start: Start, queue: Queue) -> None:
    queue.push({"n": 0})
    queue.pause()
    log = Checkpoint()
    start(log).run()
    assert log.sizes() == []
    queue.resume()
    start(log).run()
    assert log.sizes() == [1]


def test_expired_and_due_messages_come_first(start: Start, queue: Queue) -> None:
    first, second = queue.push({"id": "first"}), queue.push({"id": "second"})
    taken = queue.pop(visibility_timeout=0.001)
    assert taken is not None
    assert taken.id == first
    wait_until(lambda: queue.stats().expired, "the lease to end")
    queue.push({"id": "due"}, delay=0.000001)
    log = Checkpoint()
    start(log).run()
    assert set(log.ids()) == {first, second, "due"}
    assert log.ids()[-1] == second


def test_looks_at_an_empty_queue_use_rising_numbers(
    start: Start, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter([0, 10**6])
    monkeypatch.setattr(shards, "secrets", SimpleNamespace(randbelow=lambda _: next(drawn, 0)))
    queue.push(b"1")
    engine = start(Checkpoint(), pollIntervalMs=1)
    assert engine.step()
    assert not engine.step()
    assert not engine.step()
    queue.push(b"2")
    assert engine.step()


def test_an_empty_queue_is_looked_at_no_more_often_than_asked(
    start: Start, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, pauses = [1000.0], list[float]()
    monkeypatch.setattr(
        offsets,
        "time",
        SimpleNamespace(monotonic=lambda: clock[0], sleep=pauses.append, time_ns=time.time_ns),
    )
    engine = start(Checkpoint(), pollIntervalMs=2000)
    for idle, pause in ((0, None), (0, None), (1, 0.1), (19, 2), (900, 2)):
        clock[0] += idle
        assert not engine.step()  # the look that this one follows
        pauses.clear()
        assert not engine.step()
        assert pauses == pytest.approx([] if pause is None else [pause])
    queue.push(b"1")
    assert engine.step()
    pauses.clear()
    assert not engine.step()
    assert not engine.step()
    assert not pauses  # a message that comes soon after another one waits no time


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"minPartitions": 4}, [25, 25, 25, 25]),
        ({"maxRecordsPerPartition": 30, "minPartitions": 1}, [25, 25, 25, 25]),
        ({"maxRecordsPerPartition": 99, "minPartitions": 1}, [50, 50]),
        ({}, [100]),
    ],
)
def test_a_claim_is_cut_into_partitions(
    start: Start, queue: Queue, options: dict[str, Any], sizes: list[int]
) -> None:
    ids = queue.push_many({"n": n} for n in range(100))
    log = Checkpoint()
    engine = start(log, **options)
    engine.run()
    assert [part.rows for part in engine.planned[0]] == sizes  # type: ignore[attr-defined]
    assert log.ids() == ids


#: Reads the partition that it gets, and prints the rows and what it imported of ackq.
READ = """
import pickle, sys
stream, partition = pickle.load(sys.stdin.buffer)
print([row for rows in stream.read(partition) for row in rows.to_pylist()])
print(len([name for name in sys.modules if name.startswith("ackq")]))
"""


@pytest.mark.parametrize("kind", ["queue", "delayQueue"])
def test_an_executor_imports_only_what_it_reads_with(
    start_on: Start, plain_client: redis.Redis, token: str, kind: str
) -> None:
    with Queue(plain_client, token) as queue, DelayQueue(plain_client, f"{token}d") as delayed:
        queue.push({"id": "a", "n": 1})
        delayed.push("a", {"id": "a", "n": 1}, at=1)
    schema = StructType().add("id", StringType()).add("n", LongType())
    named = {kind: token if kind == "queue" else f"{token}d"}
    engine = start_on(Checkpoint(), schema=schema, **named)
    assert engine.step()
    copied = pickle.dumps((engine._reader, engine.planned[0][0]))
    command = [sys.executable, "-c", READ]
    ran = subprocess.run(command, input=copied, stdout=subprocess.PIPE, check=True, timeout=60)
    rows, modules = ran.stdout.decode().splitlines()
    assert rows == "[{'id': 'a', 'n': 1}]"
    assert int(modules) < 60


def test_shards_share_a_number_and_the_limit(start: Start, url: str, token: str) -> None:
    with ShardedQueue.from_url(url, token, 3) as sharded:
        ids = [sharded.push({"n": n}) for n in range(90)]
        log = Checkpoint()
        engine = start(log, shards=3, maxMessagesPerTrigger=60)
        engine.run()
        assert log.sizes() == [60, 30]
        assert sorted(log.ids()) == sorted(ids)
        assert len({row["batch"] for row in log.written[0][0]}) == 1
        queues = {part.queue for part in engine.planned[0]}  # type: ignore[attr-defined]
        assert queues == set(shard_names(token, 3))
        assert sharded.stats().in_flight == 0


def test_an_empty_shard_leaves_its_share_to_others(start: Start, url: str, token: str) -> None:
    with ShardedQueue.from_url(url, token, 3) as sharded:
        sharded.shards()[1].push_many({"n": n} for n in range(120))
        log = Checkpoint()
        start(log, shards=3, maxMessagesPerTrigger=30).run()
        assert sum(log.sizes()) == 120
        # Its own share is 10. It gets more whenever an empty one is asked before it, by chance.
        assert max(log.sizes()) > 10
        assert sharded.stats().in_flight == 0


def test_shards_whose_numbers_differ_go_on_together(start: Start, url: str, token: str) -> None:
    with ShardedQueue.from_url(url, token, 2) as sharded:
        with Claims(redis.Redis.from_url(url), shard_names(token, 2)[0], "spark") as ahead:
            ahead.begin()
            sharded.shards()[0].push({"id": "a"})
            ahead.claim(LATE - 1, messages=1)
            ahead.ack(LATE)
        sharded.shards()[1].push({"id": "b"})
        log = Checkpoint()
        start(log, shards=2).run()
        assert log.ids() == ["b"]
        assert LATE < log.rows()[0]["batch"] <= LATE + STEP


def test_every_call_survives_a_restart_of_redis(tmp_path: Path) -> None:
    with private_server(tmp_path) as server:
        source = AckqDataSource({"url": server.url, "queue": "jobs", "maxmessagespertrigger": "5"})
        schema = source.schema()
        log = Checkpoint()
        engine = Engine(lambda: source.streamReader(schema), log)

        def restart() -> None:
            server.kill()
            server.start()

        with Queue.from_url(server.url, "jobs") as queue:
            ids = queue.push_many({"n": n} for n in range(15))
            engine._reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
            for method in ("latestOffset", "partitions", "commit"):
                _before(engine._reader, method, restart)
            _before(engine._executor, "read", restart)
            while engine.step():
                pass
            engine.stop()
            assert log.ids() == ids
            assert queue.stats().in_flight == 0


def _before(reader: Any, method: str, event: Callable[[], None]) -> None:
    call = getattr(reader, method)

    def wrapped(*args: Any) -> Any:
        event()
        return call(*args)

    setattr(reader, method, wrapped)


def test_a_redis_that_stays_away_ends_the_query_in_time(
    start: Start, tmp_path: Path, token: str
) -> None:
    with private_server(tmp_path) as server:
        engine = start(Checkpoint(), url=server.url, retryTimeoutMs=300)
        assert not engine.step()
        server.kill()
        with pytest.raises(Exception, match=r"(?i)connect|refused"):
            engine.step()


def test_a_wrong_password_is_not_tried_again(start: Start, tmp_path: Path) -> None:
    with private_server(tmp_path, requirepass="right") as server:
        wrong, right = tmp_path / "wrong", tmp_path / "right"
        wrong.write_text("wrong-canary\n")
        right.write_text("right\n")
        with pytest.raises(redis.AuthenticationError) as raised:
            start(Checkpoint(), url=server.url, passwordFile=wrong)
        assert "canary" not in str(raised.value)
        assert not start(Checkpoint(), url=server.url, passwordFile=right).step()


def test_the_progress_counts_without_ever_failing(start: Start, queue: Queue) -> None:
    queue.push_many({"n": n} for n in range(30))
    engine = start(Checkpoint(), maxMessagesPerTrigger=20)
    engine.step()
    report = engine._reader.reportLatestOffset()
    assert report is not None
    assert (report["ready"], report["claimed"], report["open"]) == (10, 20, 1)


def test_a_count_that_fails_does_not_end_the_query(
    start: Start, queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(shards: Shards) -> dict[str, int]:
        raise redis.ConnectionError("no route to redis://:canary@host")

    monkeypatch.setattr(Shards, "counts", fail)
    queue.push({"id": "a"})
    engine = start(Checkpoint())
    engine.step()
    report = engine._reader.reportLatestOffset()
    assert report is not None
    assert (report["open"], "ready" in report) == (1, False)
    (logged,) = [record.getMessage() for record in caplog.records if record.name == "ackq.spark"]
    assert logged.startswith("could not count the messages: no route to")
    assert "canary" not in logged


@pytest.mark.parametrize("stage", STAGES)
def test_several_queues_are_one_source_whose_rows_name_their_queue(
    start: Start, queue: Queue, plain_client: redis.Redis, stage: Stage
) -> None:
    with Queue(plain_client, f"{queue.name}-2") as other:
        pushed = {
            each.name: each.push_many({"n": n} for n in range(count))
            for each, count in ((queue, 30), (other, 12))
        }
        options: dict[str, Any] = {"queue": None, "maxMessagesPerTrigger": 10}
        log = Checkpoint()
        # The second queue joins a checkpoint of the first.
        start(log, **options, queues=queue.name).step()
        both = {**options, "queues": f"{queue.name},{other.name}"}
        doomed = start(log, **both)
        doomed.run_until(stage, 2)
        start(log, **both).run()
        found: dict[str, list[str]] = {}
        for row in log.rows():
            found.setdefault(row["queue"], []).append(row["id"])
        assert found == pushed
        assert log.is_repeatable()
        assert {row["queue"] for row in log.written[1][-1]} == set(pushed)  # none starves
        assert other.stats().claimed == queue.stats().claimed == 0


def test_a_batch_waits_for_its_minimum_of_messages_or_its_time(start: Start, queue: Queue) -> None:
    queue.push_many({"n": n} for n in range(2))
    log = Checkpoint()
    options = {"minMessagesPerTrigger": 3, "pollIntervalMs": 1}
    engine = start(log, **options, maxTriggerDelay="1h")
    assert not engine.step()
    queue.push({"n": 2})
    assert engine.step()
    queue.push({"n": 3})
    assert not engine.step()
    assert start(log, **options, maxTriggerDelay="0s").step()
    queue.push({"n": 4})
    start(log, **options, maxTriggerDelay="1h").run()  # AvailableNow expects no more
    assert log.sizes() == [3, 1, 1]


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_rows_have_the_time_at_which_their_batch_was_planned_first(
    start: Start, queue: Queue, plain_client: redis.Redis, kind: str
) -> None:
    if kind == "queue":
        queue.push({"n": 1})
    else:
        with Topic(plain_client, queue.name) as topic:
            topic.publish({"n": 1})
    schema = StructType().add("n", LongType()).add("_received", TimestampType())
    options = {"queue": None, kind: queue.name, "includeMetadata": True, "schema": schema}
    log = Checkpoint()
    before = datetime.now(UTC)
    doomed = start(log, **options)
    doomed.run_until("written", 0)
    after = datetime.now(UTC)
    start(log, **options).run()
    first, second = log.written[0]
    assert first == second
    assert before <= first[0]["_received"] <= after


def test_rows_have_the_time_that_their_body_names(start: Start, queue: Queue) -> None:
    queue.push_many(
        [
            {"specversion": "1.0", "time": "2026-01-05T12:00:00.5+01:00"},  # a CloudEvent
            {"made": 1767607200.25, "time": "2020-01-01T00:00:00Z"},
            {"made": "yesterday"},
            b"no JSON",
        ]
    )
    schema = StructType().add("_time", TimestampType()).add("_corrupt_record", "string")
    log = Checkpoint()
    start(log, includeMetadata=True, timeField="made", schema=schema).run()
    (rows,) = log.written[0]
    expected = [
        datetime(2026, 1, 5, 11, 0, 0, 500_000, UTC),
        datetime(2026, 1, 5, 10, 0, 0, 250_000, UTC),
        None,
        None,
    ]
    assert [row["_time"] for row in rows] == expected


def test_a_pattern_stands_for_the_queues_that_match_also_if_all_is_claimed(
    start: Start, plain_client: redis.Redis, token: str
) -> None:
    names = [f"{token}-a", f"{token}-b", f"{token}x", token]
    with contextlib.ExitStack() as stack:
        queues = [stack.enter_context(Queue(plain_client, name)) for name in names]
        ids = [id for queue in queues for id in queue.push_many({"n": n} for n in range(3))]
        plain_client.hset(f"{token}-hash", "a", "b")
        log = Checkpoint()
        doomed = start(log, queue=None, queues=f"{token}-?,{token}x")
        doomed.run_until("planned", 0)
        assert [queue.stats().claimed for queue in queues] == [3, 3, 3, 0]
        assert not plain_client.exists(names[0])  # found by its claim
        start(log, queue=None, queues=f"{token}-*,{token}x").run()
        assert sorted(log.ids()) == sorted(ids[:9])
        assert {row["queue"] for row in log.rows()} == set(names[:3])
        assert queues[3].stats().ready == 3
        queues[1].push({"id": "one"})
        log = Checkpoint()
        start(log, queue=None, queues=f"{token}-b*", groupId="one").run()
        assert [(row["queue"], row["id"]) for row in log.rows()] == [(names[1], "one")]
    with pytest.raises(ConfigurationError, match="0 queues match"):
        start(Checkpoint(), queue=None, queues=f"{token}-none-*")


def test_several_sharded_queues_are_one_source(start: Start, url: str, token: str) -> None:
    log = Checkpoint()
    names = (f"{token}a", f"{token}b")
    ids = []
    for name in names:
        with ShardedQueue.from_url(url, name, 2) as sharded:
            for shard in sharded.shards():
                ids += shard.push_many({"n": n} for n in range(5))
    start(log, queue=None, queues=",".join(names), shards=2, maxMessagesPerTrigger=12).run()
    assert sorted(log.ids()) == sorted(ids)
    lists = {shard for name in names for shard in shard_names(name, 2)}
    assert {row["queue"] for row in log.rows()} == lists
    assert log.sizes() == [12, 8]
