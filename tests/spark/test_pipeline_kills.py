"""The driver of a pipeline is killed at every point of a batch; the next run goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.spark.pipeline import Pipeline
from tests.spark.doomed_pipeline import POINTS
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
MESSAGES, BATCH = 6000, 2500
#: The one that the ordinary run has time for: the sink has the batch, and Spark does not know.
USUAL = "committed"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "point",
    [pytest.param(each, marks=() if each == USUAL else pytest.mark.campaign) for each in POINTS],
)
def test_a_pipeline_killed_anywhere_moves_every_message_once_or_rejects_it_once(
    spark: SparkSession, embedded_client: redis.Redis, queue: Queue, name: str, url: str,
    tmp_path: Path, point: str,
) -> None:  # fmt: skip
    good = [f"m-{n}" for n in range(MESSAGES) if n % 5]
    bad = [f"m-{n}" for n in range(0, MESSAGES, 5)]
    queue.push_many({"id": f"m-{n}", "share": n % 5} for n in range(MESSAGES))
    config = {
        "name": name,
        "checkpoint": str(tmp_path / "checkpoint"),
        "source": {"queue": name, "options": {"url": url, "maxMessagesPerTrigger": BATCH}},
        "schema": {"ddl": "id STRING, share INT"},
        "checks": {"share": "share > 0"},
        "sink": {"queue": f"{name}-out", "options": {"url": url}},
    }
    run_until_killed(tmp_path, config, point)
    Pipeline(config, spark=spark).run(once=True)
    with Queue(embedded_client, f"{name}-out") as out:
        assert Counter(each.id for each in out.peek(2 * MESSAGES)) == Counter(good)
    assert Counter(each.id for each in queue.dead_letters(2 * MESSAGES)) == Counter(bad)
    stats = queue.stats()
    assert (stats.ready, stats.in_flight) == (0, 0)


def run_until_killed(folder: Path, config: dict[str, Any], point: str) -> None:
    """Run the pipeline until it reaches the point, then kill it, its JVM and its workers."""
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.doomed_pipeline", folder, json.dumps(config),
             point],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        wait_until(
            lambda: (folder / "reached").exists() or process.poll() is not None,
            f"the pipeline to reach {point!r}",
            timeout=180,
        )
        assert process.poll() is None, (folder / "output").read_text()[-3000:]
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        # The JVM first: nobody is to hear of the end of anybody.
        for each in sorted(family, key=lambda each: each.name() != "java"):
            each.kill()
        process.kill()
        process.wait()
        psutil.wait_procs(family, timeout=10)
