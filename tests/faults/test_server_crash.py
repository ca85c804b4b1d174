"""The server is killed again and again under load, and so are producers and consumers.

Every process writes down what it did and the replies it got; `tests.faults.checker` judges that.
The server logs each write and syncs it at once, so what it acknowledged must be there.
``ACKQ_SOAK=20`` goes on for twenty times as long.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import redis

import ackq
from ackq.embedded import Server
from tests.servers import private_server
from tests.waiting import wait_until

from .checker import Verdict, check
from .children import end, start
from .roles import LEASE, Consumer, Log, consume, produce, read_log

#: Seconds of load in CI.
DURATION = 4.0
LEAST_KILLS = 3
THREADS = 4


class Crew:
    """The processes of a run: some push, some take, and any may be replaced by another."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._born = 0
        self.log = folder / "events.jsonl"
        self.producers_stop = folder / "no-more-pushes"
        self.consumers_stop = folder / "no-more-pops"
        self.producers = [self._producer() for _ in range(2)]
        self.consumers = [self._consumer() for _ in range(3)]
        self.deaths = 0

    def _producer(self) -> BaseProcess:
        self._born += 1
        label = f"p{self._born}"
        return start(produce, self._server.url, "jobs", self.log, label, self.producers_stop)

    def _consumer(self) -> BaseProcess:
        self._born += 1
        label = f"c{self._born}"
        arguments = (self._server.url, "jobs", self.log, label, self.consumers_stop, THREADS)
        return start(consume, *arguments)

    def replace(self, draw: random.Random) -> None:
        """Kill one process and start another in its place."""
        for members, hire in (
            (self.producers, self._producer),
            (self.consumers, self._consumer),
        ):
            if draw.random() < 0.5:
                victim = draw.randrange(len(members))
                end(members[victim])
                members[victim] = hire()
                self.deaths += 1

    def finish(self, members: list[BaseProcess], stop: Path) -> None:
        """Let ``members`` come to their end."""
        stop.touch()
        for member in members:
            member.join(30)
            assert member.exitcode == 0, f"{member} ended with {member.exitcode}"

    def close(self) -> None:
        for member in (*self.producers, *self.consumers):
            end(member)


@contextlib.contextmanager
def crew_on(server: Server, folder: Path) -> Iterator[Crew]:
    with contextlib.closing(Crew(server, folder)) as crew:
        yield crew


def drain(server: Server, log: Path) -> None:
    """Take and ack all that is left, as one more consumer that nothing disturbs."""
    with ackq.Queue.from_url(server.url, "jobs", visibility_timeout=LEASE) as queue:
        consumer = Consumer(queue, Log(log), "last")

        def empty() -> bool:
            consumer.finish()
            stats = queue.stats()
            return stats.ready == stats.in_flight == stats.delayed == 0

        wait_until(empty, "every message to be settled", timeout=30)
        assert queue.audit().findings == ()


def run(tmp_path: Path, seconds: float, seed: int) -> tuple[Verdict, int, int]:
    draw = random.Random(seed)
    kills = 0
    with private_server(tmp_path / "server") as server, crew_on(server, tmp_path) as crew:
        until = time.monotonic() + seconds
        while time.monotonic() < until or kills < LEAST_KILLS:
            time.sleep(draw.uniform(0.6, 1.6))  # the load goes on meanwhile
            server.kill()
            kills += 1
            crew.replace(draw)
            server.start()
        crew.finish(crew.producers, crew.producers_stop)
        crew.finish(crew.consumers, crew.consumers_stop)
        drain(server, crew.log)
        with redis.Redis.from_url(server.url) as client:
            left = [client.exists(f"jobs{suffix}") for suffix in ("", "CONTEXT", "RECEIVES")]
        assert left == [0, 0, 0]
    return check(read_log(crew.log), LEASE), kills, crew.deaths


@pytest.mark.timeout(60 + 4 * DURATION * float(os.environ.get("ACKQ_SOAK", "1")))
def test_nothing_is_lost_or_taken_twice_when_the_server_crashes_under_load(
    tmp_path: Path, soak: float
) -> None:
    seed = random.randrange(1 << 30)
    verdict, kills, deaths = run(tmp_path, DURATION * soak, seed)
    print(f"seed {seed}: {kills} server kills, {deaths} deaths, {verdict}")
    assert verdict.problems == [], f"seed {seed}"
    assert verdict.pushed > 50
    assert verdict.redelivered > 5
    assert verdict.refused > 0, "no settle came too late: nothing was proved"
