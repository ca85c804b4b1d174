"""Consumers of a sharded queue on a real cluster, killed while they work."""

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
from tests.sharded.roles import SHARDS, consume_shards, produce, resize
from tests.waiting import wait_until


@pytest.mark.timeout(90)
def test_every_message_is_acked_while_consumers_are_killed(
    cluster: RedisCluster, token: str, tmp_path: Path
) -> None:
    node: Any = cluster.get_default_node()
    journals: list[Path] = []
    with contextlib.ExitStack() as stack:
        queue = ShardedQueue(cluster, token, SHARDS)
        stack.callback(queue.close)
        queue.stats()  # creates it

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


@pytest.mark.timeout(90)
def test_no_message_is_lost_or_stuck_when_all_are_killed_during_resizes(
    cluster: RedisCluster, token: str, tmp_path: Path
) -> None:
    node: Any = cluster.get_default_node()
    where = node.host, node.port, token
    numbers = itertools.count()
    with contextlib.ExitStack() as stack:
        queue = ShardedQueue(cluster, token, 4)
        stack.callback(queue.close)
        queue.stats()  # creates it

        def hire(role: Callable[..., None], *args: Any) -> Any:
            process = start(role, *where, *args)
            stack.callback(end, process)
            return process

        def producer() -> Any:
            number = next(numbers)
            return hire(produce, tmp_path / f"pushed-{number}", number * 1_000_000)

        def consumer() -> Any:
            return hire(consume_shards, tmp_path / f"taken-{next(numbers)}")

        crew = [producer(), producer(), consumer(), consumer(), hire(resize, 0)]
        for turn in range(4):
            before = len(_ids(tmp_path, "taken"))
            wait_until(lambda: len(_ids(tmp_path, "taken")) > before + 60, "them to work", 30)  # noqa: B023
            for each in (turn % 2, 2 + turn % 2, 4):
                end(crew[each])
            crew[turn % 2], crew[2 + turn % 2] = producer(), consumer()
            crew[4] = hire(resize, turn + 1)
        for each in (0, 1, 4):
            end(crew[each])
        queue.resize(3)
        wait_until(lambda: _ids(tmp_path, "pushed") <= _ids(tmp_path, "taken"), "all", 40)
        record = f"{{{token}}}:shards"
        wait_until(lambda: cluster.hget(record, "draining") == b"", "closed shards", 30)
        wait_until(lambda: _left(queue) == 0, "everything to be acked", 30)
        assert len(queue.shards()) == 3


def _ids(folder: Path, kind: str) -> set[str]:
    return {
        event[kind]
        for path in folder.glob(f"{kind}-*")
        for event in read_log(path)
        if kind in event
    }


def _working(journals: list[Path]) -> Callable[[], bool]:
    return lambda: all(any("taken" in each for each in read_log(path)) for path in journals)


def _owned(journal: Path) -> list[int]:
    found = [event["owns"] for event in read_log(journal) if "owns" in event]
    return found[-1] if found else []


def _left(queue: ShardedQueue) -> int:
    stats = queue.stats()
    return stats.ready + stats.in_flight + stats.delayed
