"""The driver of stateful sinks is killed at every point; their results are exact."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.embedded import Server
from ackq.spark.pipeline import Pipeline
from tests.servers.private import private_server
from tests.spark.doomed_stateful import POINTS
from tests.spark.killed import run_until_killed
from tests.spark.test_pipeline import written

#: Messages, most of a batch, and minutes of a window.
MESSAGES, BATCH, WINDOW = 9000, 700, 10
KINDS = 7


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with private_server(tmp_path / "redis") as server:
        yield server


def message(n: int) -> dict[str, Any]:
    seconds = n // 3  # of an hour that has less than MESSAGES / 3 seconds
    time = f"2026-01-05T12:{seconds // 60:02}:{seconds % 60:02}Z"
    return {"id": f"m-{n}", "time": time, "kind": n % KINDS, "size": n % 5}


@pytest.mark.campaign
@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", POINTS)
def test_windows_and_totals_are_exact_though_the_driver_is_killed(
    spark: SparkSession, server: Server, tmp_path: Path, point: str
) -> None:
    folder = tmp_path / "driver"
    folder.mkdir()
    config = {
        "name": "jobs",
        "checkpoint": str(folder / "checkpoint"),
        "source": {"queue": "jobs", "options": {"url": server.url, "maxMessagesPerTrigger": BATCH}},
        "schema": {"ddl": "id STRING, time TIMESTAMP, kind INT, size INT"},
        "checks": {"size": "size > 0"},
        "sinks": {
            "windows": {
                "path": str(folder / "windows"),
                "watermark": {"column": "time", "delay": "1 hour"},
                "sql": "SELECT kind, window.start AS start, count(*) AS rows, sum(size) AS size"
                f" FROM rows GROUP BY window(time, '{WINDOW} minutes'), kind",
            },
            "totals": {
                "queue": "totals",
                "options": {"url": server.url},
                "output_mode": "update",
                "sql": "SELECT string(kind) AS id, count(*) AS rows, sum(size) AS size FROM rows"
                " GROUP BY kind",
            },
        },
        "every": 0,
    }
    with Queue.from_url(server.url, "jobs") as queue:
        queue.push_many(message(n) for n in range(MESSAGES))
        run_until_killed(
            "tests.spark.doomed_stateful",
            folder,
            json.dumps(config),
            point,
            folder=folder,
            environment={},
        )
        Pipeline(config, spark=spark).run(once=True)
        # A much later message ends all windows.
        queue.push({"id": "last", "time": "2026-01-06T12:00:00Z", "kind": 0, "size": 1})
        progress = Pipeline(config, spark=spark).run(once=True)
        assert (progress.rows, progress.late) == (1, 0)
        stats = queue.stats()
        assert (stats.ready, stats.in_flight, stats.dead) == (0, 0, MESSAGES // 5)
    good = [message(n) for n in range(MESSAGES) if n % 5]
    rows, sizes = Counter[tuple[Any, int]](), Counter[tuple[Any, int]]()
    for each in good:
        window = int(each["time"][14:16]) // WINDOW * WINDOW
        rows[each["kind"], window] += 1
        sizes[each["kind"], window] += each["size"]
    found = written(folder / "windows")
    assert len(found) == len(rows)  # none twice
    assert {(each["kind"], each["start"].minute): each["rows"] for each in found} == rows
    assert {(each["kind"], each["start"].minute): each["size"] for each in found} == sizes
    with Queue.from_url(server.url, "totals") as out:
        totals = [json.loads(each.body) for each in out.peek(100_000)]
    reported = [(total["id"], total["rows"]) for total in totals]
    assert len(set(reported)) == len(reported)
    of_kinds = Counter(str(each["kind"]) for each in [*good, {"kind": 0}])
    assert {total["id"]: total["rows"] for total in totals} == of_kinds  # the last of each
