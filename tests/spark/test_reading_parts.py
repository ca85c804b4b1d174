"""What reads, beats and tries again within the source, without a session."""

from typing import Any

import pytest
import redis

from ackq.errors import Fenced
from ackq.queue.client import Queue
from ackq.queue.messages import QueueStats
from ackq.spark.claim_reader import fetch_in_steps
from ackq.spark.connection import retry
from ackq.spark.offsets import split
from ackq.spark.options import Reading
from ackq.spark.shards import Shards
from ackq.spark.stream import Heartbeat
from ackq.spark.topic_source import bodies_of
from ackq.topic import Topic
from tests.waiting import wait_until


def test_slices_are_a_partition_of_the_rows() -> None:
    reading = Reading.of({"queue": "jobs", "maxRecordsPerPartition": "300"})
    slices = list(split(1000, reading))
    assert [first for first, _ in slices] == [0, 250, 500, 750]
    assert sum(rows for _, rows in slices) == 1000


def test_a_batch_has_a_partition_per_task_unless_they_would_be_small() -> None:
    reading = Reading.of({"queue": "jobs", "parallelism": "7"})
    assert [rows for _, rows in split(70_000, reading)] == [10_000] * 7
    assert len(list(split(20_001, reading))) == 3


@pytest.mark.parametrize("size", [None, "70"])
def test_calls_follow_one_another_and_each_says_where_it_begins(size: str | None) -> None:
    options = {"queue": "jobs"} if size is None else {"queue": "jobs", "fetchSize": size}
    stored = [b"%d" % number for number in range(1400)]
    parts = list(fetch_in_steps(Reading.of(options), 100, 1300, lambda at, n: stored[at : at + n]))
    assert len(parts) > 1
    assert parts[0][0] == 100
    assert all(list(bodies) == stored[at : at + len(bodies)] for at, bodies in parts)
    assert [body for _, bodies in parts for body in bodies] == stored[100:]


def test_a_topic_is_read_over_more_than_one_call(
    url: str, token: str, plain_client: redis.Redis
) -> None:
    bodies = [b"%d" % number for number in range(2300)]
    with Topic(plain_client, token) as topic:
        topic.publish_many(bodies)
        stored = bodies_of(Reading.of({"topic": token, "url": url}).connection, token)
        assert stored.read(101, 2200) == bodies[100:]
        topic.trim(0)
    plain_client.delete(*plain_client.keys(f"{token}*"))


def test_a_heart_beats_three_times_a_timeout_and_goes_on_after_a_failure() -> None:
    beats = iter((redis.ConnectionError("away"), Fenced("taken over", group="g")))

    def beat() -> None:
        raise next(beats)

    heart = Heartbeat(beat, 9.0)
    assert heart._interval == 3.0
    heart.stop()
    heart = Heartbeat(beat, 0.3)
    wait_until(lambda: heart._fenced is not None, "the heart meets the fence")
    with pytest.raises(Fenced):
        heart.check()


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (redis.AuthenticationError("no"), 1),
        (ValueError("no"), 1),
        (redis.ConnectionError("away"), 2),
    ],
)
def test_only_temporary_errors_are_retried(error: Exception, attempts: int) -> None:
    made = 0

    def call() -> str:
        nonlocal made
        made += 1
        if made == 1:
            raise error
        return "done"

    if attempts == 1:
        with pytest.raises(type(error)):
            retry(call, 60.0)
    else:
        assert retry(call, 60.0) == "done"
    assert made == attempts


def test_a_wait_has_an_end() -> None:
    def call() -> None:
        raise redis.ConnectionError("away")

    with pytest.raises(redis.ConnectionError):
        retry(call, 0.05)


def test_no_call_brings_more_than_a_mebibyte_of_long_messages() -> None:
    stored = [b"x" * 600_000] * 5 + [b"short"] * 100
    reading = Reading.of({"queue": "jobs"})
    parts = list(fetch_in_steps(reading, 0, 105, lambda at, n: stored[at : at + n]))
    assert [len(bodies) for _, bodies in parts[:6]] == [1] * 6
    assert sum(len(bodies) for _, bodies in parts) == 105
    assert len(parts) < 20


def test_the_counts_of_all_lists_are_added_by_state() -> None:
    class Counted(Queue):
        def __init__(self) -> None:
            pass

        def stats(self) -> QueueStats:
            return QueueStats(1, 2, 3, 4, 5, 6, False, None, None, 7)

    shards: Any = Shards.__new__(Shards)
    shards._queues = [Counted(), Counted()]
    assert shards.counts() == {
        "ready": 2,
        "in_flight": 4,
        "claimed": 14,
        "delayed": 6,
        "dead": 8,
    }
