"""Consumers of a partitioned delay queue, each a process, join and are killed.

Each says which partitions it owns and what it takes; all instants are the server's.
"""

import contextlib
import itertools
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from ackq.delay import DelayEntry, PartitionedDelayQueue
from ackq.embedded import Server
from tests.delay.roles import PARTITIONS, SESSION, consume_partitions
from tests.faults.children import end, freeze, start
from tests.faults.roles import read_log
from tests.servers import private_server
from tests.waiting import wait_until

CONSUMERS = 3
LEASE = 0.6


class Crew:
    """The consumer processes, each with a journal."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.journals: list[Path] = []
        self.alive: dict[Path, Any] = {}

    def hire(self) -> Path:
        journal = self.folder / f"consumer-{len(self.journals)}"
        self.journals.append(journal)
        self.alive[journal] = start(consume_partitions, self.url, journal, LEASE)
        return journal

    def kill(self, journal: Path) -> None:
        end(self.alive.pop(journal))

    def loads(self) -> list[tuple[int, ...]]:
        """What each living consumer last said that it owns."""
        found = []
        for journal in self.alive:
            owned = [event["owns"] for event in read_log(journal) if "owns" in event]
            found.append(tuple(owned[-1]) if owned else ())
        return found

    def shared_out(self) -> bool:
        loads = self.loads()
        sizes = [len(owned) for owned in loads]
        return sorted(sum(loads, ())) == list(range(PARTITIONS)) and max(sizes) - min(sizes) <= 1

    def close(self) -> None:
        for journal in list(self.alive):
            self.kill(journal)

    def events(self) -> Iterator[dict[str, Any]]:
        for journal in self.journals:
            yield from read_log(journal)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with private_server(tmp_path / "server", appendfsync="everysec") as server:
        yield server


@pytest.fixture
def crew(server: Server, tmp_path: Path) -> Iterator[Crew]:
    with contextlib.closing(Crew(server.url, tmp_path)) as crew:
        yield crew


@pytest.mark.timeout(120)
def test_every_message_is_handled_while_consumers_join_and_are_killed(
    server: Server, crew: Crew, record_property: Any
) -> None:
    with (
        contextlib.closing(PartitionedDelayQueue.from_url(server.url, "t", PARTITIONS)) as queue,
        redis.Redis.from_url(server.url) as client,
    ):
        pushed: dict[str, float] = {}

        def push(label: str) -> None:
            now: Any = client.time()
            at = now[0] + now[1] / 1e6
            entries = [DelayEntry(f"{label}-{n}", b"x", at=at + 0.004 * n) for n in range(150)]
            pushed.update({entry.key: entry.at for entry in entries})  # type: ignore[misc]
            queue.push_many(entries)

        for number in range(CONSUMERS):
            crew.hire()
            push(f"join-{number}")
        wait_until(crew.shared_out, "three consumers to share out the partitions")
        assert sorted(map(len, crew.loads())) == [5, 5, 6]
        rebalances = []
        for number in range(3):
            push(f"kill-{number}")
            crew.kill(crew.journals[number])
            killed = time.monotonic()
            wait_until(crew.shared_out, "two consumers to take over")
            rebalances.append(time.monotonic() - killed)
            assert sorted(map(len, crew.loads())) == [8, 8]
            crew.hire()
            push(f"hire-{number}")
            wait_until(crew.shared_out, "three consumers to share out again")
            assert sorted(map(len, crew.loads())) == [5, 5, 6]
        wait_until(lambda: _stored(queue) == 0, "everything to be handled", 30)
        crew.close()
    print("seconds from a kill to all partitions owned again:", rebalances)
    record_property("rebalance_seconds", rebalances)
    assert max(rebalances) < SESSION + 2
    _check(list(crew.events()), pushed)


def _stored(queue: PartitionedDelayQueue) -> int:
    stats = queue.stats()
    return stats.ready + stats.in_flight + stats.delayed


def _check(events: list[dict[str, Any]], pushed: dict[str, float]) -> None:
    taken = [event for event in events if "taken" in event]
    deliveries: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for event in taken:
        deliveries[event["taken"]].append((event["from"], event["until"]))
        assert event["from"] + 0.07 >= pushed[event["taken"]]
        assert event["ready"] >= pushed[event["taken"]]
        assert event["now"] >= pushed[event["taken"]], "taken before its time"
    assert set(deliveries) == set(pushed)
    handled = [event["deleted"] for event in events if "deleted" in event]
    assert len(handled) == len(set(handled)) <= len(pushed)
    for spans in deliveries.values():
        spans.sort()
        for one, other in itertools.pairwise(spans):
            assert one[1] <= other[0], "two held valid leases on one message"


@pytest.mark.timeout(60)
def test_a_frozen_consumer_is_fenced_off_and_finds_out_when_it_wakes(
    server: Server, crew: Crew
) -> None:
    with contextlib.closing(PartitionedDelayQueue.from_url(server.url, "t", PARTITIONS)) as queue:
        frozen, other = crew.hire(), crew.hire()
        wait_until(crew.shared_out, "two consumers to share out the partitions")
        freeze(crew.alive[frozen])
        queue.push_many(DelayEntry(f"k{n}", b"x") for n in range(200))
        wait_until(lambda: _stored(queue) == 0, "the other one to handle everything", 20)
        # It deletes first and writes then.
        wait_until(
            lambda: (
                {each["deleted"] for each in read_log(other) if "deleted" in each}
                == {f"k{n}" for n in range(200)}
            ),
            "it to write down the last one, too",
        )
        os.kill(crew.alive[frozen].pid, signal.SIGCONT)
        wait_until(crew.shared_out, "both to share out the partitions again")
