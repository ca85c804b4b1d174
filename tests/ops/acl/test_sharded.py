"""Roles for all shards of a sharded queue."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from ackq.errors import ConfigurationError, QueueNameError
from ackq.ops.acl import OTHER_ROLES, rules
from ackq.ops.overview import Overview
from ackq.ops.sharded import is_sharded
from ackq.ops.workers import workers
from ackq.sharded import ShardedQueue, client
from ackq.worker import RateLimit, Schedule, Worker
from tests.ops.acl.conftest import AsRole
from tests.waiting import wait_until

As = Callable[[str], ShardedQueue]


@pytest.fixture
def sharded(admin: redis.Redis, token: str) -> Iterator[ShardedQueue]:
    with ShardedQueue(admin, token, 3) as queue:
        queue.stats()  # creates it
        yield queue


@pytest.fixture
def as_user(as_role: AsRole, sharded: ShardedQueue) -> Iterator[As]:
    """``as_user("worker")``: the queue as a user with that role opens it."""
    with contextlib.ExitStack() as stack:

        def make(role: str) -> ShardedQueue:
            client = as_role(role, sharded.name, kind="sharded")
            return stack.enter_context(ShardedQueue(client, sharded.name))

        yield make


def denied(call: Callable[..., Any], *args: Any, **settings: Any) -> None:
    with pytest.raises(redis.ResponseError, match=r"(?i)permission|can't (run|access)"):
        call(*args, **settings)


def test_producers_consumers_and_operators_can_do_their_work_through_a_resize(
    as_user: As, sharded: ShardedQueue, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, scheduler, operator = map(as_user, ("producer", "scheduler", "operator"))
    seen: list[str] = []
    worker, late = as_user("worker"), as_user("producer")
    limit, beat = RateLimit(1000, burst=1000), Schedule("beat", {"id": "beat"}, every=3600)

    def work() -> None:
        Worker(
            worker, lambda message: seen.append(message.id), rate_limit=limit, schedules=[beat]
        ).run(drain=True)

    for number in range(6):
        producer.push({"id": f"a{number}"})
    with monkeypatch.context() as patched:
        patched.setattr(client, "READ_INTERVAL", 3600.0)
        late.push({"id": "a6"})
    scheduler.push({"id": "once"}, dedup="one")
    scheduler.push({"id": "once again"}, dedup="one")
    scheduler.push({"id": "later"}, delay=600)
    work()
    assert sorted(seen) == ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "once"]
    assert operator.run_now(ids=["later"]) == 1
    operator.resize(5)
    producer.push_many([{"id": "b"}], key="k")
    work()
    assert set(seen[8:]) == {"later", "b"}
    consumer = as_user("consumer")
    denied(consumer.purge)

    def closed() -> bool:
        consumer.pop()
        return admin.hget(f"{{{sharded.name}}}:shards", "draining") == b""

    wait_until(closed, "the former shards closed")
    late.push({"id": "c"})  # a closed shard refuses it
    assert [each.id for each in consumer.pop_many(9, timeout=5)] == ["c"]
    operator.purge()


def test_those_who_look_see_all_shards_and_change_nothing(
    as_user: As, as_role: AsRole, sharded: ShardedQueue, admin: redis.Redis
) -> None:
    for number in range(6):
        sharded.push({"id": str(number)})
    sharded.join()
    for role in ("monitor", "watcher", "viewer", "operator"):
        client = as_role(role, sharded.name, kind="sharded")
        assert is_sharded(client, sharded.name)
        assert workers(client, [sharded.name]) == []
        with Overview(client, [sharded.name], window=5.0) as overview:
            snapshot = overview.read()
        assert [each.states["ready"] for each in snapshot.queues] == [6], role
        assert snapshot.queues[0].workers == 0
        with ShardedQueue(client, sharded.name) as queue:
            assert queue.stats().ready == 6
            if role != "operator":
                denied(queue.push, {"id": "x"})
                denied(queue.purge)
    operator = as_user("operator")
    operator.pause()
    assert sharded.stats().paused
    operator.resume()
    assert operator.purge() == 6


def test_a_role_is_for_this_queue_only(as_role: AsRole, admin: redis.Redis, token: str) -> None:
    names = [f"{token}x", f"{token}:x"]
    for name in names:
        with ShardedQueue(admin, name, 2) as queue:
            queue.push({"id": "a"})
    for role in OTHER_ROLES["sharded"]:
        client = as_role(role, token, kind="sharded")
        for name in names:
            with ShardedQueue(client, name) as other:
                for call in (other.stats, other.purge, other.pop):
                    denied(call)
            denied(client.execute_command, "LPUSH", f"{{{name}:0.1}}", "x")
        denied(client.execute_command, "LPUSH", token, "x")
    for name in names:
        with ShardedQueue(admin, name) as queue:
            assert queue.purge() == 1


def test_what_has_no_role_for_shards_is_refused() -> None:
    for role in ("doctor", "loader"):
        with pytest.raises(ConfigurationError, match="a role is one of"):
            rules("jobs", role, kind="sharded")
    with pytest.raises(QueueNameError):
        rules("{jobs}", "producer", kind="sharded")
