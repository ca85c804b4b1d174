"""The stream over Spark Connect that docs/pipeline-deploy.md shows."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ackq import Queue
from ackq.spark.launch import find_java
from tests.servers.private import private_server
from tests.spark.cluster import SPARK, kill
from tests.spark.home import JAVA
from tests.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "pipeline-deploy.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.campaign
@pytest.mark.timeout(450)
def test_the_stream_over_spark_connect_needs_ackq_only_at_the_server(
    tmp_path: Path, free_port: int
) -> None:
    (example,) = EXAMPLE.findall(PAGE.read_text())
    example = example.replace("spark.internal:15002", f"127.0.0.1:{free_port}")
    example = example.replace("hdfs:///pipelines", str(tmp_path))
    with (
        private_server(tmp_path / "redis") as redis,
        connect_server(tmp_path, free_port, redis.url),
        Queue.from_url(redis.url, "cars") as queue,
    ):
        queue.push_many({"Name": f"car {n}", "Horsepower": n} for n in range(300))
        done = subprocess.run(
            [sys.executable, "-c", example],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=tmp_path,
            env={name: value for name, value in os.environ.items() if name != "ACKQ_REDIS_URL"},
        )
        assert done.returncode == 0, done.stderr[-3000:]
    import pyarrow.dataset  # it imports pandas

    rows = pyarrow.dataset.dataset(tmp_path / "cars" / "rows").to_table().to_pylist()
    assert {(row["Name"], row["Horsepower"]) for row in rows} == {
        (f"car {n}", n) for n in range(300)
    }
    assert len(rows) == 300


@contextlib.contextmanager
def connect_server(folder: Path, port: int, url: str) -> Iterator[None]:
    """Run a server of Spark Connect."""
    log = folder / "log"
    with log.open("wb") as output:
        process = psutil.Popen(
            [
                SPARK / "bin" / "spark-submit",
                "--master",
                "local[2]",
                "--class",
                "org.apache.spark.sql.connect.service.SparkConnectServer",
                "--conf",
                f"spark.connect.grpc.binding.port={port}",
                "--conf",
                "spark.ui.enabled=false",
                "--conf",
                f"spark.driver.extraJavaOptions={JAVA}",
                "spark-internal",
            ],
            env={
                **os.environ,
                "JAVA_HOME": str(find_java()),
                "SPARK_HOME": str(SPARK),
                "PYSPARK_PYTHON": sys.executable,
                "ACKQ_REDIS_URL": url,
            },
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(
            lambda: "server started at" in log.read_text(errors="replace"), str(log), timeout=150
        )
        yield
    finally:
        kill(process)
