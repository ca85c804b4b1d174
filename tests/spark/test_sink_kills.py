"""The driver dies anywhere in the sink and starts again: each row is there once.

The ordinary run kills a driver that has a source and a sink: test_pipeline_kills.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from ackq import Queue
from ackq.delay import DelayQueue
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from tests.conftest import WITHOUT
from tests.spark.conftest import quiet
from tests.spark.sink_driver import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, ROWS = 3, 6000
ROOT = Path(__file__).parents[2]
#: All ids of the input.
IDS = Counter(f"f{file}-{row}" for file in range(FILES) for row in range(ROWS))

Run = Callable[..., int]
Resume = Callable[[dict[str, Any]], None]


@pytest.fixture
def run(url: str, tmp_path: Path) -> Iterator[Run]:
    """``run(options, fault, flaky)``: run the driver until it ends; its exit status."""
    source = tmp_path / "input"
    source.mkdir()
    for file in range(FILES):
        lines = (json.dumps({"id": f"f{file}-{row}", "n": row}) for row in range(ROWS))
        path = source / f"{file}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (file + 1, file + 1))  # Spark reads the oldest first
    started: list[subprocess.Popen[bytes]] = []

    def run(options: dict[str, Any], fault: str | None = None, flaky: int = 0) -> int:
        spec = {
            "input": str(source),
            "checkpoint": str(tmp_path / "checkpoint"),
            "pid": str(tmp_path / "pids"),
            "options": options,
            "flaky": flaky,
        }
        paths = [str(ROOT), str(Path(__file__).parent / "faults"), str(WITHOUT)]
        settings = {"PYTHONPATH": os.pathsep.join(paths), "PIDS": str(tmp_path / "pids")}
        environment = {**os.environ, **settings, "ACKQ_REDIS_URL": url}
        if fault:
            environment["FAULT"] = fault
        with open(tmp_path / "log", "ab") as log:
            driver = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.sink_driver", json.dumps(spec)],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(driver)
        try:
            return driver.wait(timeout=150)
        finally:
            end(driver)

    yield run
    for driver in started:
        end(driver)


@pytest.fixture
def resume(spark: SparkSession, url: str, tmp_path: Path) -> Callable[[dict[str, Any]], None]:
    """``resume(options)``: run the same query to its end, in the session of the tests."""

    def resume(options: dict[str, Any]) -> None:
        with quiet():
            query = write(
                spark,
                str(tmp_path / "input"),
                str(tmp_path / "checkpoint"),
                {**options, "url": url},
            )
            query.awaitTermination()

    return resume


def end(driver: subprocess.Popen[bytes]) -> None:
    """Kill the rest of the driver's process group, such as its Python workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def taken(client: redis.Redis, token: str, sink: str) -> Counter[str]:
    """Take all that is in the sink, and return the ids."""
    found: Counter[str] = Counter()
    if sink == "topic":
        with Topic(client, token) as topic:
            topic.subscribe("reader", "oldest")
            batch = topic.consume("reader", 1000)
            while batch:
                found.update(str(each.json()["id"]) for each in batch)
                batch = topic.consume("reader", 1000, commit=batch)
    elif sink == "delayQueue":
        with DelayQueue(client, token) as delays:
            while due := delays.take(1000):
                found.update(each.key for each in due)
                delays.delete(*due)
    elif sink == "shards":
        with ShardedQueue(client, token, 3) as sharded:
            while messages := sharded.pop_many(1000):
                found.update(str(each.id) for each in messages)
                sharded.ack(*messages)
    else:
        for name in [token] if sink == "queue" else [f"{token}-0", f"{token}-1"]:
            with Queue(client, name) as queue:
                while messages := queue.pop_many(1000):
                    found.update(str(each.id) for each in messages)
                    queue.ack(*messages)
    return found


def assert_clean(client: redis.Redis, token: str) -> None:
    left = {key for key in client.scan_iter(f"*{token}*") if b"STAG" in key or b"HELD" in key}
    assert not left


#: Where a driver dies, for each sink.
KILLS = {
    "queue": (
        *("stage:1:1", "stage:1:2", "commit:1:1", "move:1:1", "move:1:2", "move:1:3"),
        *("committed:1:1", "committed:0:1"),
    ),
    "shards": ("commit:1:2", "move:1:1", "committed:1:2"),
    "queueColumn": ("commit:1:2", "move:1:1", "committed:1:2"),
    "topic": ("commit:1:1", "move:1:1", "move:1:4", "committed:1:1"),
    "delayQueue": ("commit:1:1", "move:1:1", "move:1:4", "committed:1:1"),
}


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("sink", "fault"), [(sink, fault) for sink in KILLS for fault in KILLS[sink]]
)
def test_a_driver_dies_in_a_batch_and_starts_again(
    run: Run, resume: Resume, plain_client: redis.Redis, token: str, sink: str, fault: str
) -> None:
    options = {"queue": token, "shards": 3} if sink == "shards" else {sink: token}
    expected = IDS
    if sink == "queue":
        with Queue(plain_client, token) as queue:
            queue.push({"id": "before"})
        expected = IDS + Counter(["before"])
    assert run(options, fault) == -signal.SIGKILL
    if fault == "move:1:2":
        assert plain_client.zcard(f"{token}HELD") >= 1
    # What arrived is done and deleted before the batch is replayed; a pop finishes a commit.
    found = taken(plain_client, token, sink)
    resume(options)
    found += taken(plain_client, token, sink)
    assert found == expected
    assert_clean(plain_client, token)


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_rows_of_tasks_that_failed_half_way_are_not_committed(
    run: Run, plain_client: redis.Redis, token: str
) -> None:
    assert run({"queue": token}, flaky=ROWS // 2) == 0
    assert taken(plain_client, token, "queue") == IDS
    assert_clean(plain_client, token)
