"""What docs/spark.md shows, works, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ackq import Queue
from ackq.delay import PartitionedDelayQueue
from ackq.spark.options import _PEEK, _STREAM, PARSING, QUEUES, TARGET, TARGET_COLUMNS
from ackq.spark.sink_options import _SINK
from ackq.topic import Topic
from tests.servers.private import private_server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text()
SINK_PAGE = (ROOT / "docs" / "spark-sink.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
URL = "redis://localhost:6379/0"


def test_every_option_is_documented() -> None:
    table = PAGE.partition("## Options")[2]
    named = set(re.findall(r"`(\w+)`", table))
    assert {*TARGET, QUEUES, *PARSING, *_PEEK, *_STREAM} - named <= {"path"}
    table = SINK_PAGE.partition("## Options")[2]
    assert {*TARGET, *TARGET_COLUMNS, *_SINK} - set(re.findall(r"`(\w+)`", table)) <= {"path"}


@pytest.mark.campaign
@pytest.mark.timeout(450)
def test_the_examples_run_one_after_the_other(tmp_path: Path) -> None:
    assert URL in EXAMPLES[0]
    checks = """
written = spark.read.parquet("jobs.parquet")
assert [row.id for row in written.orderBy("position").collect()] == ["a", "b"]
assert progress.rows == 2
assert [(row.reason, row["count"]) for row in dead.groupBy("reason").count().collect()] == [
    ("no good", 1)
]
assert invoices.columns == ["id", "value", "queue", "batch", "position", "ready_time"]
assert prices.columns == ["id", "value", "topic", "offset"]
assert [(row.queue, row["count"]) for row in later.groupBy("queue").count().collect()] == [
    ("invoices:3", 1)
]
"""
    with private_server(tmp_path / "redis") as server:
        with Queue.from_url(server.url, "jobs") as queue, Topic.from_url(server.url, "prices") as t:
            queue.push({"id": "z"})
            message = queue.pop()
            assert message is not None
            queue.reject(message, reason="no good")
            queue.push_many([{"id": "a"}, {"id": "b"}])
            t.publish({"item": "tea"})
        with PartitionedDelayQueue.from_url(server.url, "invoices", 16) as invoices:
            invoices.push("invoice-4", b"x", delay=3600, partition=3)
        script = tmp_path / "examples.py"
        script.write_text("\n".join([*EXAMPLES, checks]).replace(URL, server.url))
        done = subprocess.run(
            [sys.executable, script],
            cwd=tmp_path,
            # From the wheel's own home, as Spark runs for users.
            env={name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
            | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "'id': 'a'" in done.stdout
