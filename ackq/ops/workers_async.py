"""Who works on the queues of a server, on asyncio.

`workers` lists them, `send_order` quiets or stops them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import redis.asyncio
from redis.exceptions import AskError, MovedError, NoPermissionError, TryAgainError

from ackq.core.effects import Operation
from ackq.core.io.driver_async import Driver
from ackq.core.io.nodes_async import nodes_of
from ackq.core.io.routes_async import SingleRoute, route_of
from ackq.errors import KeyTypeError
from ackq.membership.shards import whole
from ackq.ops.sharded import shard_names_of
from ackq.ops.worker_info import WorkerInfo, by_worker, raw, search, spec, text
from ackq.queue.registry import Entry, Order, entries, leave_order

T = TypeVar("T")


async def workers(client: redis.asyncio.Redis, queues: Sequence[str] = ()) -> list[WorkerInfo]:
    """Return the workers of a server or cluster, sorted by name and id.

    A worker that died is no longer returned when 6 of its heartbeat intervals (30 s) have passed.

    The cost is one round trip for every 100 workers of a queue. Without ``queues``, one for every
    1,000 keys of the server is added.

    Args:
        client: of the server, or of any node of the cluster.
        queues: look only at the lists of these; of a sharded queue, at those of its shards, too.
            Defaults to all queues that have workers.

    Raises:
        NoPermissionError: the user may not read the list of a named queue, or not search.
        KeyTypeError: a key of a named queue is not a list of workers.
    """
    entries = await _named(client, queues) if queues else await _searched(client)
    return by_worker(entries)


async def send_order(
    client: redis.asyncio.Redis, order: Order, targets: Iterable[WorkerInfo]
) -> list[str]:
    """Leave an order for workers; each receives it with its next heartbeat, within 5 s.

    "quiet": take no more messages and finish those it has. "resume": take messages again.
    "stop": end, as after SIGTERM. Sending the same order twice does no harm.

    Args:
        client: of the server, or of any node of the cluster.
        order: what to do.
        targets: workers that `workers` returned.

    Returns:
        The ids of the workers that are still listed and will receive it.

    Raises:
        NoPermissionError: the user may not give orders to a worker.
    """
    by_queue: defaultdict[str, list[bytes]] = defaultdict(list)
    for target in targets:
        by_queue[target.found_in[0]].append(raw(target.id))
    listed: list[bytes] = []
    for queue, ids in by_queue.items():
        listed += await _run(client, queue, leave_order(spec(queue), order, ids))
    return [text(name) for name in listed]


async def _named(client: redis.asyncio.Redis, queues: Sequence[str]) -> list[Entry]:
    listed: list[Entry] = []
    for name in dict.fromkeys(queues):
        shards: list[str] = []
        if "{" not in name and "}" not in name:
            shards = await _run(client, whole(name), shard_names_of(name))
        for shard in (whole(name), *shards) if shards else (name,):
            listed += await _run(client, shard, entries(spec(shard)))
    return listed


async def _run(client: redis.asyncio.Redis, queue: str, steps: Operation[T]) -> T:
    driver = Driver(route_of(client, queue.encode()))
    try:
        return await driver.run(steps)
    finally:
        await driver.route.close()


async def _searched(client: redis.asyncio.Redis) -> list[Entry]:
    # A key of another program, or a slot that has moved since.
    unreadable = (KeyTypeError, NoPermissionError, AskError, MovedError, TryAgainError)
    listed: list[Entry] = []
    for node in await nodes_of(client):
        # Do not follow redirections: a queue on another node is found there.
        driver = Driver(SingleRoute(node, follow=False))
        try:
            for name in sorted(await driver.run(search())):
                with suppress(*unreadable):
                    listed += await driver.run(entries(spec(name)))
        finally:
            await driver.route.close()
    return listed
