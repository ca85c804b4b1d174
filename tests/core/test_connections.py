"""How many connections a queue opens, that it leaves none behind, and how long it waits on one."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
import redis

import ackq
from ackq.core.io.settings import block_limit_for
from tests.servers import Fleet, Survey, Target
from tests.waiting import wait_until


def opened(target: Target) -> int:
    """Return how many connections were ever made, to all primaries together."""
    nodes = {"target_nodes": "primaries"} if target.cluster else {}
    info: Any = target.control.info("stats", **nodes)
    parts = info.values() if target.cluster else [info]
    return sum(int(part["total_connections_received"]) for part in parts)


def test_operations_one_after_the_other_share_a_connection(
    queue: Any, target: Target, name: str
) -> None:
    queue.push({"id": "a"})
    before = opened(target)
    for _ in range(5):
        queue.release(queue.pop())
    message = queue.pop()
    target.control.sadd(f"{name}DEAD", "x")
    for _ in range(5):
        with pytest.raises(ackq.KeyTypeError):
            queue.reject(message)
    assert opened(target) == before


def test_close_leaves_no_connection(
    plain_client: redis.Redis, url: str, flavoured: Callable[..., Any], name: str
) -> None:
    def newer_than(last: int) -> set[int]:
        clients: Any = plain_client.client_list()
        return {number for client in clients if (number := int(client["id"])) > last}

    last = max(newer_than(0))
    queue = flavoured(ackq.Queue.from_url, ackq.AsyncQueue.from_url, url, name)
    queue.push({"id": "a"})
    assert newer_than(last)
    queue.close()
    wait_until(lambda: not newer_than(last), "it to disconnect")


def test_more_tasks_than_a_pool_of_redis_py_allows_connect_at_once_behind_a_sentinel(
    survey: Survey, fleet: Fleet, token: str
) -> None:
    if "sentinel" not in survey.offers:
        pytest.skip("the run has no Sentinel")
    target = fleet.get("sentinel")

    async def body() -> None:
        client = target.make_async_client()
        async with ackq.AsyncQueue(client, token) as queue:
            assert await asyncio.gather(*(queue.pop() for _ in range(120))) == [None] * 120
        await client.aclose()

    asyncio.run(body())


@pytest.mark.parametrize("read_timeout", [0.01, 0.5, 1.0, 3.0, 60.0, None])
def test_a_wait_ends_well_before_the_read_timeout(read_timeout: float | None) -> None:
    assert 0 < block_limit_for(read_timeout) <= min(1.0, (read_timeout or math.inf) / 2)
