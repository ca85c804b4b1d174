"""Find lists that no consumer of ackq has used yet, in bounded steps. Nothing is changed."""

from __future__ import annotations

from collections.abc import Collection

import redis

from ackq.core.effects import Operation, Request
from ackq.core.io.driver import Driver
from ackq.core.io.nodes import nodes_of
from ackq.core.io.routes import SingleRoute
from ackq.ops.asking import queue_name, reply

#: Keys that one SCAN examines, and how many SCANs there are on each server.
SCANNED, STEPS = 1000, 1000


def plain_lists(
    client: redis.Redis | redis.RedisCluster, known: Collection[str], steps: int = STEPS
) -> dict[str, int]:
    """Return the lists that could be queues, with the numbers of their messages.

    Cost: a SCAN for 1,000 keys on each server, and two round trips more.

    Args:
        client: of the server, or of any node of the cluster.
        known: the names of queues, which are left out.
        steps: SCANs on each server at most.
    """
    if isinstance(client, redis.RedisCluster):
        client = client.get_redis_connection(client.get_default_node())
    plain: dict[str, int] = {}
    for node in nodes_of(client):
        driver = Driver(SingleRoute(node, follow=False))
        try:
            names = sorted(driver.run(_names(steps)) - set(known))
            lengths = driver.run_all(map(_length, names))
        finally:
            driver.route.close()
        plain |= {
            name: length
            for name, length in zip(names, lengths, strict=True)
            if isinstance(length, int)
        }
    return plain


def _names(steps: int) -> Operation[set[str]]:
    names: set[str] = set()
    cursor = b"0"
    for _ in range(steps):
        command = (b"SCAN", cursor, b"COUNT", SCANNED, b"TYPE", b"list")
        cursor, keys = yield Request(command, resend=True)
        names.update(name for key in keys if (name := queue_name(key)))
        if cursor == b"0":
            break
    return names


def _length(name: str) -> Operation[int | None]:
    if name.endswith((":wake", ":Q.wake")) and (yield from reply(b"LINDEX", name, 0)) == b"1":
        return None  # with this, delay queues and RSMQ wake their consumers
    length: int = yield from reply(b"LLEN", name)
    return length
