"""Full servers, dying consumers, a crashing server."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import OutOfMemoryError

from ackq.delay import DelayEntry, DelayQueue
from ackq.embedded import Server
from tests.delay.roles import count_deaths, die_at_boundary
from tests.faults.children import child
from tests.faults.roles import read_log
from tests.servers import private_server
from tests.waiting import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with private_server(tmp_path) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


def test_a_full_server_refuses_pushes_and_still_drains(client: redis.Redis) -> None:
    with contextlib.closing(DelayQueue(client, "t", max_receives=2)) as queue:
        queue.push_many(DelayEntry(f"k{n}", b"x" * 100) for n in range(200))
        client.config_set("maxmemory", 1)
        before = queue.stats()
        with pytest.raises(OutOfMemoryError):
            queue.push("more", b"x")
        assert queue.stats() == before
        taken = queue.take(100)
        assert queue.extend(*taken) == queue.nack(*taken, delay=0) == 100
        while taken := queue.take(100):
            assert queue.delete(*taken) == len(taken)
        assert queue.stats().ready == queue.stats().in_flight == 0


def test_a_consumer_that_dies_at_any_boundary_loses_nothing(
    server: Server, client: redis.Redis, tmp_path: Path
) -> None:
    journal = tmp_path / "log"
    with contextlib.closing(DelayQueue(client, "t")) as queue:
        fatal, killed = 0, True
        while killed:
            fatal += 1
            pushed = {f"{fatal}-{n}" for n in range(3)}
            queue.push_many(DelayEntry(key, b"x") for key in pushed)
            with child(die_at_boundary, server.url, journal, fatal, 0.2) as process:
                process.join(20)
                killed = process.exitcode == -9
            stored = {key.decode() for key in client.hkeys("t:h")}  # type: ignore[union-attr]
            scheduled = {key.decode() for key in client.zrange("t:z", 0, -1)}  # type: ignore[union-attr]
            assert stored == scheduled
            deleted = {event["deleted"] for event in read_log(journal)} & pushed
            # One delete may have been applied although its reply was not read.
            assert not deleted & stored
            assert len(pushed - deleted - stored) <= 1
            while queue.stats().in_flight or queue.stats().ready:
                queue.delete(*queue.take(9, timeout=1))
        assert fatal > 6


def test_no_message_is_lost_or_held_twice_while_consumers_and_server_are_killed(
    server: Server, client: redis.Redis, tmp_path: Path
) -> None:
    journals = [tmp_path / f"log{n}" for n in range(3)]
    with contextlib.ExitStack() as stack:
        queue = stack.enter_context(contextlib.closing(DelayQueue(client, "t")))
        for round_ in range(3):
            queue.push_many(DelayEntry(f"{round_}-{n}", b"x", 0.01 * n) for n in range(60))
            children = [
                stack.enter_context(child(count_deaths, server.url, journal, 0.5))
                for journal in journals
            ]
            wait_until(lambda: queue.stats().in_flight, "them to work")
            children[0].kill()
            if round_ == 1:
                server.kill()
                server.start()
            children[1].kill()
        wait_until(lambda: _stored(client) == 0, "everything to be handled", 30)
    handled: dict[str, int] = {}
    deliveries: dict[str, list[tuple[float, float]]] = {}
    for journal in journals:
        for event in read_log(journal):
            if "deleted" in event:
                handled[event["deleted"]] = handled.get(event["deleted"], 0) + 1
            else:
                deliveries.setdefault(event["taken"], []).append((event["from"], event["until"]))
    assert set(deliveries) == {f"{r}-{n}" for r in range(3) for n in range(60)}
    assert max(handled.values()) == 1
    for spans in deliveries.values():
        spans.sort()
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


def _stored(client: Any) -> int:
    try:
        return int(client.zcard("t:z"))
    except redis.ConnectionError:
        return -1
