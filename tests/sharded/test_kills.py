"""Consumers of a sharded queue on a real cluster, killed while they work."""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis.cluster import RedisCluster

from ackq.sharded import ShardedQueue
from tests.faults.children import end, start
from tests.faults.roles import read_log
from tests.servers import CLUSTERS, Fleet, Survey
from tests.sharded.roles import SHARDS, consume_shards
from tests.waiting import wait_until


@pytest.fixture
def cluster(survey: Survey, fleet: Fleet) -> RedisCluster:
    kind = survey.first(CLUSTERS)
    if kind is None:
        pytest.skip("the run has no cluster")
    client = fleet.get(kind).control
    assert isinstance(client, RedisCluster)
    return client


@pytest.mark.timeout(90)
def test_every_message_is_acked_while_consumers_are_killed(
    cluster: RedisCluster, token: str, tmp_path: Path
) -> None:
    node: Any = cluster.get_default_node()
    journals: list[Path] = []
    with contextlib.ExitStack() as stack:
        queue = ShardedQueue(cluster, token, SHARDS)
        stack.callback(queue.close)

        def hire() -> Any:
            journals.append(tmp_path / f"consumer-{len(journals)}")
            process = start(consume_shards, node.host, node.port, token, journals[-1])
            stack.callback(end, process)
            return process

        crew = [hire() for _ in range(3)]
        for number in range(3):
            for first in range(0, 300, 10):
                queue.push_many({"id": f"{number}-{n}"} for n in range(first, first + 10))
            wait_until(_working(journals[number:]), "all three to work", 20)
            end(crew[number])
            crew.append(hire())
        wait_until(lambda: _left(queue) == 0, "everything to be acked", 40)
        wait_until(
            lambda: sorted(map(len, map(_owned, journals[3:]))) == [2, 2, 2], "two shards each"
        )
    events = [event for journal in journals for event in read_log(journal)]
    deliveries: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for event in events:
        if "taken" in event:
            deliveries[event["taken"]].append((event["from"], event["until"]))
    assert set(deliveries) == {f"{number}-{n}" for number in range(3) for n in range(300)}
    acked = [event["acked"] for event in events if "acked" in event]
    assert len(acked) == len(set(acked))
    for spans in deliveries.values():
        spans.sort()
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


def _working(journals: list[Path]) -> Callable[[], bool]:
    return lambda: all(any("taken" in each for each in read_log(path)) for path in journals)


def _owned(journal: Path) -> list[int]:
    found = [event["owns"] for event in read_log(journal) if "owns" in event]
    return found[-1] if found else []


def _left(queue: ShardedQueue) -> int:
    stats = queue.stats()
    return stats.ready + stats.in_flight + stats.delayed
