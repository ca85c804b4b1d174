"""Two executors, each its own JVM; one is killed while it reads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ackq import Queue
from tests.servers.private import private_server
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.mark.campaign
@pytest.mark.timeout(450)
def test_a_cluster_knows_the_format_and_an_executor_that_is_lost_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "driver"
    folder.mkdir()
    with private_server(tmp_path / "redis") as server, Queue.from_url(server.url, "jobs") as queue:
        ids = queue.push_many({"n": n} for n in range(5000))
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.clustered", folder, "jobs"],
                cwd=ROOT,
                env={**os.environ, "ACKQ_REDIS_URL": server.url, "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            reached = folder / "reached"
            wait_until(
                lambda: (reached.exists() and reached.read_text()) or process.poll() is not None,
                "a task that reads",
                timeout=250,
            )
            assert process.poll() is None, (folder / "output").read_text()[-3000:]
            _executor_of(int(reached.read_text())).kill()
            process.wait(timeout=150)
        finally:
            family = psutil.Process(process.pid).children(recursive=True) if _alive(process) else []
            for each in family:
                each.kill()
            process.kill()
            process.wait()
        assert process.returncode == 0, (folder / "output").read_text()[-3000:]
        rows = [
            row[0]
            for batch in range(3)
            for row in json.loads((folder / "rows" / f"{batch}.only.json").read_text())
        ]
        assert rows == ids
        assert queue.stats().in_flight == 0
        with Queue.from_url(server.url, "jobs-copy") as copy:
            assert sorted(each.id or "" for each in copy.peek(10_000)) == sorted(ids)


def _alive(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None


def _executor_of(pid: int) -> psutil.Process:
    """Return the executor's JVM, the nearest among the parents of a Python worker."""
    return next(parent for parent in psutil.Process(pid).parents() if parent.name() == "java")
