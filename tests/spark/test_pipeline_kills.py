"""The driver of a pipeline is killed at every point of a batch; the next run goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.delay import DelayEntry, PartitionedDelayQueue
from ackq.embedded import Server
from ackq.spark.pipeline import Pipeline
from tests.servers.private import private_server
from tests.spark.doomed_pipeline import FAULTS, POINTS
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "point",
    [pytest.param(each, marks=() if each == USUAL else pytest.mark.campaign) for each in POINTS],
)
def test_a_pipeline_killed_anywhere_moves_every_message_once_and_leaks_no_secret(
    spark: SparkSession, server: Server, tmp_path: Path, point: str
) -> None:
    good = [f"m-{n}" for n in range(MESSAGES) if n % 5]
    bad = [f"m-{n}" for n in range(0, MESSAGES, 5)]
    folder = tmp_path / "driver"
    folder.mkdir()
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    options = {"url": server.url, "passwordFile": str(password)}
    config = {
        "name": "jobs",
        "checkpoint": str(folder / "checkpoint"),
        "source": {"queue": "jobs", "options": {**options, "maxMessagesPerTrigger": BATCH}},
        "schema": {"ddl": "id STRING, share INT"},
        "checks": {"share": "share > 0"},
        "sink": {"queue": "out", "options": options},
    }
    url = server.url.replace("redis://", f"redis://:{PASSWORD}@")
    with Queue.from_url(url, "jobs") as queue, Queue.from_url(url, "out") as out:
        queue.push_many({"id": f"m-{n}", "share": n % 5} for n in range(MESSAGES))
        fault = {"FAULT": FAULTS[point]} if point in FAULTS else {}
        run_until_killed(
            "tests.spark.doomed_pipeline",
            folder,
            json.dumps(config),
            point,
            folder=folder,
            environment=fault,
        )
        Pipeline(config, spark=spark).run(once=True)
        assert Counter(each.id for each in out.peek(2 * MESSAGES)) == Counter(good)
        assert Counter(each.id for each in queue.dead_letters(2 * MESSAGES)) == Counter(bad)
        stats = queue.stats()
        assert (stats.ready, stats.in_flight) == (0, 0)
    assert_silent(folder, PASSWORD)


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", POINTS)
def test_a_pipeline_from_a_delay_queue_killed_anywhere_moves_every_message_once(
    spark: SparkSession, server: Server, tmp_path: Path, point: str
) -> None:
    good = [f"m-{n}" for n in range(MESSAGES) if n % 5]
    bad = [f"m-{n}" for n in range(0, MESSAGES, 5)]
    folder = tmp_path / "driver"
    folder.mkdir()
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    options = {"url": server.url, "passwordFile": str(password)}
    reading = {**options, "maxMessagesPerTrigger": BATCH, "partitions": 2}
    config = {
        "name": "jobs",
        "checkpoint": str(folder / "checkpoint"),
        "source": {"delay_queue": "jobs", "options": reading},
        "schema": {"ddl": "id STRING, share INT"},
        "checks": {"share": "share > 0"},
        "sink": {"queue": "out", "options": options},
        "rejects": {"queue": "bad"},
    }
    url = server.url.replace("redis://", f"redis://:{PASSWORD}@")
    with (
        PartitionedDelayQueue.from_url(url, "jobs", 2) as jobs,
        Queue.from_url(url, "out") as out,
        Queue.from_url(url, "bad") as rejected,
    ):
        jobs.push_many(
            DelayEntry(f"m-{n}", {"id": f"m-{n}", "share": n % 5}, at=1) for n in range(MESSAGES)
        )
        jobs.push("later", {"id": "later", "share": 1}, delay=3600)
        fault = {"FAULT": FAULTS[point]} if point in FAULTS else {}
        run_until_killed(
            "tests.spark.doomed_pipeline",
            folder,
            json.dumps(config),
            point,
            folder=folder,
            environment=fault,
        )
        Pipeline(config, spark=spark).run(once=True)
        assert Counter(each.id for each in out.peek(2 * MESSAGES)) == Counter(good)
        assert Counter(each.id for each in rejected.dead_letters(2 * MESSAGES)) == Counter(bad)
        stats = jobs.stats()
        assert (stats.ready, stats.in_flight, stats.delayed, stats.dead) == (0, 0, 1, 0)
        assert jobs.claims() == []


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", ["staged", "moving", "committed", "logged"])
def test_each_of_several_sinks_has_its_rows_once_though_the_driver_is_killed(
    spark: SparkSession, server: Server, tmp_path: Path, point: str
) -> None:
    folder = tmp_path / "driver"
    folder.mkdir()
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    options = {"url": server.url, "passwordFile": str(password)}
    config = {
        "name": "jobs",
        "checkpoint": str(folder / "checkpoint"),
        "source": {"queue": "jobs", "options": {**options, "maxMessagesPerTrigger": BATCH}},
        "schema": {"ddl": "id STRING, share INT"},
        "sinks": {
            "low": {
                "queue": "low",
                "options": options,
                "sql": "SELECT * FROM rows WHERE share < 3",
            },
            "high": {
                "queue_column": "goes",
                "options": options,
                "sql": "SELECT *, concat('high-', share) AS goes FROM rows WHERE share > 2",
            },
        },
        "every": 0,
    }
    url = server.url.replace("redis://", f"redis://:{PASSWORD}@")
    with Queue.from_url(url, "jobs") as queue:
        queue.push_many({"id": f"m-{n}", "share": n % 5} for n in range(MESSAGES))
        fault = {"FAULT": FAULTS[point]} if point in FAULTS else {}
        run_until_killed(
            "tests.spark.doomed_pipeline",
            folder,
            json.dumps(config),
            point,
            folder=folder,
            environment=fault,
        )
        Pipeline(config, spark=spark).run(once=True)
        stats = queue.stats()
        assert (stats.ready, stats.in_flight) == (0, 0)
    for name, shares in {"low": (0, 1, 2), "high-3": (3,), "high-4": (4,)}.items():
        with Queue.from_url(url, name) as out:
            assert Counter(each.id for each in out.peek(2 * MESSAGES)) == Counter(
                f"m-{n}" for n in range(MESSAGES) if n % 5 in shares
            )
