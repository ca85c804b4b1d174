"""``ackq work`` with a sharded queue, killed and resized while it works."""

import contextlib
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis.cluster import RedisCluster

from ackq.sharded import ShardedQueue
from tests.faults.children import end, start
from tests.faults.roles import read_log
from tests.sharded.roles import produce, resize
from tests.waiting import wait_until

from .commands import Command, working

#: Seconds for one step, as many as for the whole test: several processes start, one by one.
LONG = 180


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize(
    "handler", ["quick", pytest.param("quick_async", marks=pytest.mark.campaign)]
)
def test_no_message_is_lost_when_workers_are_killed_while_the_queue_is_resized(
    tmp_path: Path, cluster: RedisCluster, token: str, handler: str
) -> None:
    node: Any = cluster.get_default_node()
    where = node.host, node.port, token
    options = f"-q {token}=1 -q {{{token}-other}}=1 --processes 3 --lease 1 --heartbeat 0".split()
    url = f"redis://{node.host}:{node.port}"
    draw = random.Random(7)
    with contextlib.ExitStack() as stack:
        queue = stack.enter_context(ShardedQueue(cluster, token, 4))
        queue.stats()  # creates it
        command = stack.enter_context(
            working(tmp_path, url, f"tests.process.jobs:{handler}", *options)
        )

        def hire(role: Callable[..., None], *args: Any) -> Any:
            process = start(role, *where, *args)
            stack.callback(end, process)
            return process

        crew = [
            hire(produce, tmp_path / f"pushed-{number}", number * 1_000_000) for number in range(2)
        ]
        crew.append(hire(resize, 0))
        for _ in range(3):
            before = len(command.events("end"))
            wait_until(lambda: len(command.events("end")) > before + 100, "them to work", LONG)  # noqa: B023
            with contextlib.suppress(psutil.NoSuchProcess, IndexError):
                draw.choice(command.children()).kill()
        for each in crew:
            end(each)
        queue.resize(3)
        wait_until(lambda: _settled(queue), "every ack", LONG)
        assert _pushed(tmp_path) <= _handled(command)
        record = f"{{{token}}}:shards"
        wait_until(lambda: cluster.hget(record, "draining") == b"", "closed shards", LONG)
        assert len(queue.shards()) == 3
        queue.push({"id": "last"})
        wait_until(lambda: "last" in _handled(command), "the last one", LONG)
        command.process.terminate()
        assert command.wait(LONG) == 0


def _pushed(folder: Path) -> set[str]:
    logs = itertools.chain.from_iterable(map(read_log, folder.glob("pushed-*")))
    return {event["pushed"] for event in logs}


def _settled(queue: ShardedQueue) -> bool:
    stats = queue.stats()
    return not (stats.ready or stats.in_flight or stats.delayed)


def _handled(command: Command) -> set[str]:
    return {event["id"] for event in command.events("end")}
