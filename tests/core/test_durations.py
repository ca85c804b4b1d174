"""Every duration may be a timedelta: it means the same as its seconds."""

import math
from datetime import timedelta

import pytest
import redis

from ackq import ConfigurationError, Confirm, Queue
from ackq.config import QueueConfig, in_seconds, microseconds
from ackq.core.waits import Deadline, check_timeout
from ackq.delay import DelayClaims, DelayQueue, PartitionedDelayQueue
from ackq.queue.claims_client import Claims
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from ackq.worker import Again, Backoff, Health, RateLimit, Release, Schedule, Worker

MINUTE, HALF = timedelta(minutes=1), timedelta(milliseconds=500)


def test_a_timedelta_means_its_seconds_and_is_checked_like_them() -> None:
    assert in_seconds(HALF) == 0.5
    assert in_seconds(None) is None
    assert microseconds(timedelta(microseconds=1), "lease") == 1
    assert microseconds(timedelta(), "delay", zero=True) == 0
    assert check_timeout(MINUTE) == Deadline(MINUTE).timeout == 60
    assert check_timeout(math.inf) == math.inf
    for wrong in (timedelta(), timedelta(seconds=-1), timedelta(days=1)):
        with pytest.raises(ConfigurationError, match=r"lease is 0\.000001 to 43200 seconds"):
            microseconds(wrong, "lease")
    with pytest.raises(ConfigurationError, match="delay is 0 to 43200 seconds, not -1"):
        microseconds(-1, "delay", zero=True)
    with pytest.raises(ConfigurationError, match="timeout is None"):
        check_timeout(timedelta(seconds=-1))
    assert QueueConfig().changed({"visibility_timeout": MINUTE}) == QueueConfig(60.0)


def test_a_list_queue_takes_timedeltas(plain_client: redis.Redis, name: str) -> None:
    with Queue(plain_client, name, visibility_timeout=MINUTE) as queue:
        assert queue.config.visibility_timeout == 60
        assert queue.with_config(visibility_timeout=HALF).config.visibility_timeout == 0.5
        queue.push({"id": "a"}, delay=timedelta(), dedup="a", dedup_window=MINUTE)
        queue.push_many([{"id": "later"}], delay=timedelta(hours=1))
        assert (later := queue.stats().next_event_in) is not None
        assert 0 <= later <= 3600
        message = queue.pop(MINUTE, visibility_timeout=MINUTE)
        assert message is not None
        before = message.lease_expires_at
        queue.extend(message, timeout=timedelta(hours=1))
        assert 3000 < message.lease_expires_at - before < 3700
        queue.release(message, delay=timedelta())
        with queue.lease(MINUTE, visibility_timeout=MINUTE) as leased:
            assert leased is not None
        assert queue.pop(timedelta(milliseconds=1)) is None
        queue.run_now(ids=["later"])
        last = queue.pop()
        assert last is not None
        queue.nack(last, delay=timedelta(days=2))
        delayed = queue.stats().next_event_in
        assert delayed is not None
        assert 47 * 3600 < delayed <= 48 * 3600


def test_the_other_queues_take_timedeltas(plain_client: redis.Redis, token: str) -> None:
    with (
        ShardedQueue(plain_client, token, 1, visibility_timeout=MINUTE) as sharded,
        DelayQueue(plain_client, f"{token}-d", visibility_timeout=MINUTE) as delay,
        PartitionedDelayQueue(plain_client, f"{token}-p", 1, session_timeout=MINUTE) as parts,
        Topic(plain_client, f"{token}-t", visibility_timeout=MINUTE, max_age=MINUTE) as topic,
        Claims(plain_client, f"{token}-c", "group", timeout=MINUTE) as claims,
        DelayClaims(plain_client, f"{token}-d", "group", timeout=MINUTE) as delayed,
    ):
        assert (claims.begin(), delayed.begin()) == (1, 1)
        assert (claims.ack(1, keep=MINUTE), delayed.ack(1)) == (0, 0)
        assert sharded.config.visibility_timeout == 60
        sharded.push({"id": "a"}, delay=timedelta())
        message = sharded.pop(MINUTE, visibility_timeout=HALF)
        assert message is not None
        sharded.nack(message, delay=MINUTE)
        for queue in (delay, parts):
            queue.push("k", {"id": "a"}, delay=timedelta())
            (taken,) = queue.take(1, timeout=MINUTE, visibility_timeout=MINUTE)
            queue.extend(taken, timeout=MINUTE)
            queue.nack(taken, delay=MINUTE)
            assert queue.consume(print, idle_timeout=timedelta(milliseconds=1)) == 0
        topic.subscribe("c")
        topic.publish({"id": "a"}, dedup="a", dedup_window=MINUTE)
        assert len(topic.consume("c", timeout=MINUTE, visibility_timeout=MINUTE)) == 1


def test_a_worker_and_its_parts_take_timedeltas(plain_client: redis.Redis, name: str) -> None:
    assert Backoff(MINUTE, limit=timedelta(hours=1), jitter=0).delay(2, 0.5) == 120
    assert Again(MINUTE).delay == Release(MINUTE).delay == 60
    assert Schedule("s", {}, every=MINUTE).timetable.after(0) == 60_000_000
    handled = []
    with Queue(plain_client, name) as queue:
        queue.push({"id": "a"})
        Worker(
            queue,
            lambda message: handled.append(message.id),
            time_limit=MINUTE,
            grace=MINUTE,
            heartbeat=MINUTE,
            rate_limit=RateLimit(100, per=MINUTE),
            health=Health(port=0, stalled_after=MINUTE, interval=HALF),
        ).run(drain=True)
    assert handled == ["a"]


def test_a_confirmation_takes_a_timedelta() -> None:
    assert Confirm(1, timeout=HALF).seconds == Confirm(1, timeout=0.5).seconds
    with pytest.raises(ConfigurationError, match="timeout"):
        Confirm(1, timeout=timedelta(hours=2))
