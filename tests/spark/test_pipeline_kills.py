"""The driver of a pipeline is killed at every point of a batch; the next run goes on."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.delay import DelayEntry, PartitionedDelayQueue
from ackq.embedded import Server
from ackq.spark.pipeline import Pipeline
from tests.servers.private import private_server
from tests.spark.doomed_pipeline import FAULTS, POINTS, STREAMED
from tests.spark.killed import assert_silent, run_until_killed

PASSWORD = "canary-2b9e-of-redis"
#: More of a batch are good than the sink moves in one step.
MESSAGES, BATCH = 9000, 3500
#: One that the ordinary run has time for: in the middle of the sink's commit, when the batch is
#: claimed, its rejects are dead letters, and part of its rows are in the queue.
USUAL = "moving"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with private_server(tmp_path / "redis", requirepass=PASSWORD) as server:
        yield server


GOOD = Counter(f"m-{n}" for n in range(MESSAGES) if n % 5)
BAD = Counter(f"m-{n}" for n in range(0, MESSAGES, 5))


class Killed:
    """A pipeline whose driver is killed, and that another one ends."""

    def __init__(self, spark: SparkSession, server: Server, folder: Path, point: str) -> None:
        self._spark, self._point, self.folder = spark, point, folder / "driver"
        self.folder.mkdir()
        password = folder / "password"
        password.write_text(PASSWORD)
        self.options = {"url": server.url, "passwordFile": str(password)}
        #: For this process.
        self.url = server.url.replace("redis://", f"redis://:{PASSWORD}@")

    def run(self, kind: str, config: dict[str, Any], **options: object) -> None:
        """Run a pipeline from the queue ``jobs`` until it is killed, and again to the end."""
        reading = {**self.options, "maxMessagesPerTrigger": BATCH, **options}
        config = {
            "name": "jobs",
            "checkpoint": str(self.folder / "checkpoint"),
            "source": {kind: "jobs", "options": reading},
            "schema": {"ddl": "id STRING, share INT"},
            **config,
        }
        run_until_killed(
            "tests.spark.doomed_pipeline",
            self.folder,
            json.dumps(config),
            self._point,
            folder=self.folder,
            environment={"FAULT": FAULTS[self._point]} if self._point in FAULTS else {},
        )
        Pipeline(config, spark=self._spark).run(once=True)

    def in_queue(self, name: str, dead: bool = False) -> Counter[str]:
        """Return the ids of a queue's ready or dead messages."""
        with Queue.from_url(self.url, name) as queue:
            found = queue.dead_letters(2 * MESSAGES) if dead else queue.peek(2 * MESSAGES)
            return Counter(str(each.id) for each in found)

    def push(self) -> None:
        with Queue.from_url(self.url, "jobs") as queue:
            queue.push_many({"id": f"m-{n}", "share": n % 5} for n in range(MESSAGES))

    def is_empty(self) -> bool:
        with Queue.from_url(self.url, "jobs") as queue:
            stats = queue.stats()
        return (stats.ready, stats.in_flight) == (0, 0)


@pytest.fixture
def killed(spark: SparkSession, server: Server, tmp_path: Path, point: str) -> Killed:
    return Killed(spark, server, tmp_path, point)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(each, marks=() if each == USUAL else pytest.mark.campaign)
        for each in (*POINTS, *STREAMED)
    ],
)
def test_a_pipeline_killed_anywhere_moves_every_message_once_and_leaks_no_secret(
    killed: Killed,
) -> None:
    killed.push()
    sink = {"queue": "out", "options": killed.options}
    killed.run("queue", {"checks": {"share": "share > 0"}, "sink": sink})
    assert killed.in_queue("out") == GOOD
    assert killed.in_queue("jobs", dead=True) == BAD
    assert killed.is_empty()
    assert_silent(killed.folder, PASSWORD)


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", POINTS)
def test_a_pipeline_from_a_delay_queue_killed_anywhere_moves_every_message_once(
    killed: Killed,
) -> None:
    config = {
        "checks": {"share": "share > 0"},
        "sink": {"queue": "out", "options": killed.options},
        "rejects": {"queue": "bad"},
    }
    with PartitionedDelayQueue.from_url(killed.url, "jobs", 2) as jobs:
        jobs.push_many(
            DelayEntry(f"m-{n}", {"id": f"m-{n}", "share": n % 5}, at=1) for n in range(MESSAGES)
        )
        jobs.push("later", {"id": "later", "share": 1}, delay=3600)
        killed.run("delay_queue", config, partitions=2)
        stats = jobs.stats()
        assert (stats.ready, stats.in_flight, stats.delayed, stats.dead) == (0, 0, 1, 0)
        assert jobs.claims() == []
    assert killed.in_queue("out") == GOOD
    assert killed.in_queue("bad", dead=True) == BAD
