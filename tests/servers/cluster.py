"""A Redis Cluster of three primaries on this machine."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
import redis.asyncio
from redis.cluster import RedisCluster

from ackq.embedded import Server
from tests.waiting import wait_until

from .binaries import best_server
from .process import running
from .target import Offer, Target, dotted

NODES = 3
_SLOTS = 16_384
_OPTIONS: dict[str, str | list[str]] = {
    "appendonly": "no",
    "cluster-enabled": "yes",
    "cluster-node-timeout": "5000",
}


def offer() -> Offer:
    return offer_of("cluster", best_server())


def offer_of(name: str, executable: Path) -> Offer:
    """Return the offer of a cluster whose nodes run ``executable``."""
    version = dotted(executable)

    @contextlib.contextmanager
    def start(directory: Path) -> Iterator[Target]:
        with contextlib.ExitStack() as stack:
            servers = [
                stack.enter_context(
                    running(directory / str(number), executable, _OPTIONS, cluster=True)
                )
                for number in range(NODES)
            ]
            _join(servers)
            yield _target(name, version, servers[0].url)

    return Offer(name, version, start, note=f"{NODES} nodes")


def _target(name: str, version: str, url: str) -> Target:
    return Target(
        name,
        version,
        url,
        make_client=lambda: RedisCluster.from_url(url),
        make_async_client=lambda: redis.asyncio.RedisCluster.from_url(url),
        control=RedisCluster.from_url(url),
        cluster=True,
    )


def _join(servers: list[Server]) -> None:
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(redis.Redis.from_url(server.url)) for server in servers]
        for number, node in enumerate(nodes):
            first, end = (_SLOTS * n // NODES for n in (number, number + 1))
            node.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            node.execute_command("CLUSTER ADDSLOTS", *range(first, end))
            for other in servers[:number]:
                node.execute_command("CLUSTER MEET", "127.0.0.1", str(other.port))
        wait_until(lambda: all(map(_is_whole, nodes)), "the cluster to be whole on every node", 30)


def _is_whole(node: Any) -> bool:
    info = node.execute_command("CLUSTER INFO")
    return bool(
        info["cluster_state"] == "ok"
        and int(info["cluster_slots_ok"]) == _SLOTS
        and int(info["cluster_known_nodes"]) == NODES
    )
