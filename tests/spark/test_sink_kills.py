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


def ids(bodies: list[bytes]) -> Counter[str]:
    return Counter(json.loads(body)["id"] for body in bodies)


def drained(queue: Queue | ShardedQueue) -> Counter[str]:
    found: Counter[str] = Counter()
    while messages := queue.pop_many(1000):
        found += ids([message.body for message in messages])
        queue.ack(*messages)
    return found


def assert_clean(client: redis.Redis, token: str) -> None:
    left = {key for key in client.scan_iter(f"*{token}*") if b"STAG" in key or b"HELD" in key}
    assert not left


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_a_commit_cut_in_two_is_finished_by_a_pop_and_not_done_again(
    run: Run, resume: Resume, queue: Queue, plain_client: redis.Redis, token: str
) -> None:
    queue.push(b'{"id":"before"}')
    assert run({"queue": token}, "move:1:2") == -signal.SIGKILL
    assert plain_client.zcard(f"{token}HELD") >= 1
    found = drained(queue)
    assert found.total() == 1 + 2 * ROWS
    resume({"queue": token})
    found += drained(queue)
    assert found == IDS + Counter(["before"])
    assert_clean(plain_client, token)


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "fault",
    [
        "stage:1:1",
        "stage:1:2",
        "commit:1:1",
        "move:1:1",
        "move:1:3",
        "committed:1:1",
        "committed:0:1",
    ],
)
def test_a_driver_dies_in_a_batch_and_starts_again(
    run: Run,
    resume: Resume,
    queue: Queue,
    plain_client: redis.Redis,
    token: str,
    fault: str,
) -> None:
    queue.push(b'{"id":"before"}')
    assert run({"queue": token}, fault) == -signal.SIGKILL
    resume({"queue": token})
    assert drained(queue) == IDS + Counter(["before"])
    assert_clean(plain_client, token)


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["commit:1:2", "move:1:1", "committed:1:2"])
def test_a_driver_dies_between_shards(
    run: Run, resume: Resume, plain_client: redis.Redis, token: str, fault: str
) -> None:
    options = {"queue": token, "shards": 3}
    assert run(options, fault) == -signal.SIGKILL
    resume(options)
    with ShardedQueue(plain_client, token, 3) as queue:
        assert drained(queue) == IDS
    assert_clean(plain_client, token)


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["commit:1:2", "move:1:1", "committed:1:2"])
def test_a_driver_dies_between_the_queues_that_its_rows_name(
    run: Run, resume: Resume, plain_client: redis.Redis, token: str, fault: str
) -> None:
    assert run({"queueColumn": token}, fault) == -signal.SIGKILL
    resume({"queueColumn": token})
    found: Counter[str] = Counter()
    for number in (0, 1):
        with Queue(plain_client, f"{token}-{number}") as queue:
            here = drained(queue)
        assert all(int(each.partition("-")[2]) % 2 == number for each in here)
        found += here
    assert found == IDS
    assert_clean(plain_client, token)


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["commit:1:1", "move:1:1", "move:1:4", "committed:1:1"])
def test_a_driver_dies_in_a_batch_for_a_topic(
    run: Run, resume: Resume, plain_client: redis.Redis, token: str, fault: str
) -> None:
    assert run({"topic": token}, fault) == -signal.SIGKILL
    resume({"topic": token})
    with Topic(plain_client, token) as topic:
        topic.subscribe("reader", "oldest")
        bodies: list[bytes] = []
        batch = topic.consume("reader", 1000)
        while batch:
            bodies += [message.body for message in batch]
            batch = topic.consume("reader", 1000, commit=batch)
    assert ids(bodies) == IDS


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["commit:1:1", "move:1:1", "move:1:4", "committed:1:1"])
def test_a_driver_dies_in_a_batch_for_a_delay_queue(
    run: Run, resume: Resume, plain_client: redis.Redis, token: str, fault: str
) -> None:
    with DelayQueue(plain_client, token) as delays:
        found: Counter[str] = Counter()
        for each in (fault, None):
            if each:
                assert run({"delayQueue": token}, each) == -signal.SIGKILL
            else:
                resume({"delayQueue": token})
            # What arrived is done and deleted before the batch is replayed.
            while messages := delays.take(1000):
                found += Counter(message.key for message in messages)
                delays.delete(*messages)
    assert found == IDS


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_rows_of_tasks_that_failed_half_way_are_not_committed(
    run: Run, queue: Queue, plain_client: redis.Redis, token: str
) -> None:
    assert run({"queue": token}, flaky=ROWS // 2) == 0
    assert drained(queue) == IDS
    assert_clean(plain_client, token)
