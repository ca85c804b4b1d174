"""A worker finds the primary again after Sentinel has made another server the primary."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis.asyncio.sentinel
import redis.sentinel

import ackq
from ackq.embedded import Server
from tests.faults.test_failover import SERVICE, executable, insist, watched  # noqa: F401 - fixtures
from tests.waiting import wait_until
from tests.worker.conftest import Rig

from .conftest import settled

_sentinel: Any = redis.sentinel.Sentinel
_async_sentinel: Any = redis.asyncio.sentinel.Sentinel


@pytest.fixture
def queues(
    watched: tuple[Server, Server, int],  # noqa: F811
    flavour: str,
    portal: Any,
) -> Iterator[tuple[ackq.Queue, Any]]:
    """A queue for the test, and the same one in the flavour of the worker."""
    manager = _sentinel([("127.0.0.1", watched[2])])
    with contextlib.ExitStack() as stack:
        stack.callback(manager.sentinels[0].close)
        client = stack.enter_context(manager.master_for(SERVICE))
        queue = stack.enter_context(ackq.Queue(client, "jobs"))
        if flavour == "sync":
            yield queue, queue
            return
        async_manager = _async_sentinel([("127.0.0.1", watched[2])])
        stack.callback(portal.call, async_manager.sentinels[0].aclose)
        async_client = async_manager.master_for(SERVICE)
        stack.callback(portal.call, async_client.aclose)
        worked = portal.call(ackq.AsyncQueue, async_client, "jobs")
        stack.callback(portal.call, worked.aclose)
        yield queue, worked


def test_a_failover_needs_no_restart_of_the_worker(
    rig: Rig,
    watched: tuple[Server, Server, int],  # noqa: F811 - the fixture
    queues: tuple[ackq.Queue, Any],
) -> None:
    queue, worked = queues
    ids = queue.push_many([{"id": f"m{n}"} for n in range(200)], confirm=1)
    rig.handler.behave = lambda message: asyncio.sleep(0.01)
    made = rig.work(worked, concurrency=2)
    rig.handler.wait_for(30)
    primary, replica, _ = watched
    primary.kill()
    insist(lambda: queue.push({"id": "after"}, dedup="after"))
    wait_until(lambda: insist(lambda: settled(queue)), "the rest", 40)
    assert made.running
    assert set(rig.handler.seen) == {*ids, "after"}
    with redis.Redis.from_url(replica.url) as promoted:
        assert promoted.role()[0] == b"master"
