"""The driver of a pipeline is killed at every point of a batch; the next run goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.embedded import Server
from ackq.spark.pipeline import Pipeline
from tests.servers.private import private_server
from tests.spark.doomed_pipeline import POINTS, SINK_POINTS
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PASSWORD = "canary-2b9e-of-redis"
#: More of a batch are good than the sink moves in one step.
MESSAGES, BATCH = 9000, 3500
#: The one that the ordinary run has time for: the sink has the batch, and Spark does not know.
USUAL = "committed"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with private_server(tmp_path / "redis", requirepass=PASSWORD) as server:
        yield server


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "point",
    [pytest.param(each, marks=() if each == USUAL else pytest.mark.campaign) for each in POINTS],
)
def test_a_pipeline_killed_anywhere_moves_every_message_once_and_tells_no_secret(
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
        run_until_killed(folder, config, point)
        Pipeline(config, spark=spark).run(once=True)
        assert Counter(each.id for each in out.peek(2 * MESSAGES)) == Counter(good)
        assert Counter(each.id for each in queue.dead_letters(2 * MESSAGES)) == Counter(bad)
        stats = queue.stats()
        assert (stats.ready, stats.in_flight) == (0, 0)
    assert_silent(folder)


def run_until_killed(folder: Path, config: dict[str, Any], point: str) -> None:
    """Run the pipeline until it reaches the point, then kill it, its JVM and its workers."""
    paths = os.pathsep.join([str(ROOT), str(Path(__file__).parent / "faults")])
    environment = {**os.environ, "PYTHONPATH": paths, "PIDS": str(folder / "pids")}
    if point in SINK_POINTS:
        environment["FAULT"] = SINK_POINTS[point]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.doomed_pipeline", folder, json.dumps(config),
             point],
            cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(
            lambda: (folder / "reached").exists() or process.poll() is not None,
            f"the pipeline to reach {point!r}",
            timeout=180,
        )
        expected = -signal.SIGKILL if point in SINK_POINTS else None
        assert process.poll() == expected, (folder / "output").read_text()[-3000:]
    finally:
        # The JVM first: nobody is to hear of the end of anybody.
        family = sorted(family_of(process.pid), key=lambda each: each.info["name"] != "java")
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()
        psutil.wait_procs(family, timeout=10)


def family_of(leader: int) -> list[psutil.Process]:
    """Return the processes of a session; a driver that is killed has no children any more."""
    return [each for each in psutil.process_iter(["name"]) if _session(each.pid) == leader]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def assert_silent(folder: Path) -> None:
    """Find the password nowhere: not in the checkpoint, the event log, or what was printed."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    events = [path.read_bytes() for path in files if "events" in path.parts]
    assert any(b"SparkListenerSQLExecutionStart" in each for each in events)
    for path in files:
        assert PASSWORD.encode() not in path.read_bytes(), path
