"""A worker takes from a sharded queue as from one queue."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

import ackq
from ackq.ops.overview import Overview
from ackq.ops.samples import Row
from ackq.ops.workers import send_order, workers
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from ackq.web.queue_details import all_workers
from ackq.worker import Health, RateLimit, Schedule
from tests.waiting import wait_until
from tests.worker.conftest import Rig

from .conftest import push, settled, until

MakeSharded = Callable[..., Any]


@pytest.fixture
def sharded_of(
    plain_client: redis.Redis, flavour: str, flavoured: Callable[..., Any], token: str
) -> MakeSharded:
    """``sharded_of("suffix", shards=4, **settings)``: a sharded queue in the test's flavour."""
    settings = plain_client.connection_pool.connection_kwargs
    address = {"host": settings["host"], "port": settings["port"]}
    client: Any = redis.Redis if flavour == "sync" else redis.asyncio.Redis
    kinds = (ShardedQueue, AsyncShardedQueue)
    return lambda suffix="", shards=4, **settings: flavoured(
        *kinds, client(**address), token + suffix, shards, **settings
    )


def test_all_shards_are_consumed_and_a_resize_is_followed(
    sharded_of: MakeSharded, plain_client: redis.Redis, rig: Rig
) -> None:
    queue = sharded_of(visibility_timeout=2.0)
    for number in range(40):
        queue.push({"id": f"before {number}"}, key=f"customer {number}")
    rig.work(queue, concurrency=4)
    rig.handler.wait_for(40)
    queue.resize(6)
    for number in range(60):
        queue.push({"id": f"after {number}"}, key=f"customer {number}")
    rig.handler.wait_for(100)
    assert len(set(rig.handler.seen)) == 100
    wait_until(lambda: settled(queue), "every ack")
    record = f"{{{queue.name}}}:shards"
    wait_until(lambda: plain_client.hget(record, "draining") == b"", "the former shards closed")


def test_a_sharded_queue_has_the_weight_and_the_rank_of_one_queue(
    sharded_of: MakeSharded, rig: Rig
) -> None:
    sharded, usual = sharded_of("-sharded"), rig.queue_of("-usual")
    for number in range(4):
        sharded.push_many([{"id": f"sharded {number} {n}"} for n in range(150)], key=f"k{number}")
    push(usual, 600, "usual")
    rig.work({sharded: 1, usual: 3}, concurrency=1, prefetch=4, start=False).drain()
    shares = Counter(each.split()[0].split("-")[0] for each in rig.handler.seen[:400])
    assert 60 < shares["sharded"] < 140
    assert len(set(rig.handler.seen)) == 1200
    rig.handler.seen.clear()
    push(usual, 100, "usual")
    sharded.push_many({"id": f"urgent {n}"} for n in range(100))
    rig.work([sharded, usual], concurrency=1, start=False).drain()
    assert all(each.startswith("urgent") for each in rig.handler.seen[:100])
    assert len(rig.handler.seen) == 200


def test_a_draining_worker_also_takes_from_shards_that_others_own(
    sharded_of: MakeSharded, rig: Rig
) -> None:
    queue, other = sharded_of(shards=64), sharded_of(shards=None)
    assert len(queue.shards()) == 64  # creates it
    other.join()
    for number in range(2):  # a take looks at some of the shards of others, not at all
        queue.push({"id": str(number)}, key=str(number))
        rig.work(queue, start=False).drain()
        assert len(rig.handler.seen) == number + 1
    assert settled(queue)


def test_failures_extensions_and_releases_go_to_the_shard_of_the_message(
    sharded_of: MakeSharded, rig: Rig
) -> None:
    queue = sharded_of(visibility_timeout=0.5, max_receives=2)
    finish = threading.Event()

    def behave(message: ackq.Message) -> Any:
        if message.id.startswith("bad"):
            raise ValueError("bad")
        return until(finish)

    rig.handler.behave = behave
    rig.work(queue, concurrency=16, backoff=ackq.worker.Backoff(base=0, jitter=0))
    for number in range(4):
        queue.push({"id": f"bad {number}"}, key=str(number))
        queue.push({"id": f"slow {number}"}, key=str(number))
    wait_until(lambda: queue.stats().dead == 4, "the bad ones to be dead")
    assert all("ValueError" in letter.cause for letter in queue.dead_letters())
    ready = time.monotonic() + 0.7  # the leases of the others would have ended once
    wait_until(lambda: time.monotonic() > ready, "the end of the leases", 2)
    assert queue.stats().in_flight == 4
    finish.set()
    wait_until(lambda: settled(queue), "the acks")
    assert Counter(each.split()[0] for each in rig.handler.seen) == {"bad": 8, "slow": 4}
    queue.purge(dead=True)


def test_the_rate_limit_and_the_schedules_are_those_of_the_whole_queue(
    sharded_of: MakeSharded, rig: Rig
) -> None:
    queue = sharded_of()
    for number in range(40):
        queue.push({"id": f"m{number}"}, key=str(number))
    limit, beat = RateLimit(10, per=600.0, burst=10), Schedule("beat", {"task": "beat"}, every=0.05)
    first = rig.work(queue, rate_limit=limit)
    rig.handler.wait_for(10)
    second = rig.work(queue, rate_limit=limit, schedules=[beat])
    before = queue.stats().ready
    wait_until(lambda: queue.stats().ready >= before + 2, "two ticks")
    assert len(rig.handler.seen) == 10
    for each in (first, second):
        each.stop()
        each.join()
    queue.purge()


def test_a_worker_leaves_the_consumers_when_it_ends(
    sharded_of: MakeSharded, plain_client: redis.Redis, rig: Rig
) -> None:
    queue = sharded_of()
    started = rig.work(queue)
    members = f"{{{queue.name}}}:4:members"
    wait_until(lambda: plain_client.zcard(members) == 1, "it to join")
    started.stop()
    started.join()
    assert plain_client.zcard(members) == 0


def test_a_worker_is_listed_once_for_all_shards(
    sharded_of: MakeSharded, plain_client: redis.Redis, rig: Rig
) -> None:
    queue = sharded_of()
    release = threading.Event()
    rig.handler.behave = lambda message: until(release)
    queue.push({"id": "a"})
    rig.work(queue, name="mailer", heartbeat=0.2)
    with Overview(plain_client, [queue.name]) as overview:
        wait_until(lambda: [each.workers for each in overview.read().queues] == [1], "one worker")
        (reading,) = overview.read().queues
    assert (reading.kind, len(reading.parts)) == ("sharded", 4)

    def works() -> Any:
        return [worker for worker in workers(plain_client, [queue.name]) if worker.running]

    (found,) = wait_until(works, "it to show what it does")
    assert (found.name, found.queues) == ("mailer", (queue.name,))
    assert [(each.queue, each.message_id) for each in found.running] == [(queue.name, "a")]
    (shown,) = all_workers(plain_client, [Row(reading, {})]) or ()
    assert shown.id == found.id
    assert send_order(plain_client, "stop", [found]) == [found.id]
    release.set()
    wait_until(lambda: not workers(plain_client, [queue.name]), "it to have stopped")


def test_the_figures_of_handlers_are_those_of_the_queue(sharded_of: MakeSharded, rig: Rig) -> None:
    queue = sharded_of()
    health = Health(port=0)
    for number in range(8):
        queue.push({"id": str(number)}, key=str(number))
    rig.work(queue, health=health)
    wait_until(lambda: settled(queue), "every ack")
    assert health.figures is not None
    (figures,) = health.figures.snapshot().queues.items()
    assert (figures[0], figures[1].outcomes) == (queue.name, {"ack": 8})
