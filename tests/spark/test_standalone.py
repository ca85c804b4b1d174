"""A pipeline on a cluster of two workers, with an environment that has ackq and a password."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ackq import Queue
from ackq.embedded import Server
from ackq.spark.launch import find_java
from tests.servers.private import private_server
from tests.spark.cluster import SPARK, kill, standalone
from tests.spark.home import JAVA
from tests.waiting import wait_until

PASSWORD, KEY = "canary-4711", "canary-s3-4712"
ACKQ = [sys.executable, "-c", "from ackq.cli import main; main()", "pipeline", "run"]
TRANSFORM = """
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

@F.udf(StringType())
def place(id):
    import pathlib
    return str(pathlib.Path("environment/bin/python").resolve(strict=True))

def with_place(rows):
    return rows.withColumn("place", place("id"))
"""
CONFIG = """
checkpoint = "state"
source.queue = "jobs"
source.options.minPartitions = 4
schema.ddl = "id STRING, n INT"
sink.path = "out"
transform.callable = "placed:with_place"

[spark]
"spark.master" = "MASTER"
"spark.archives" = "ARCHIVE#environment"
"spark.pyspark.python" = "./environment/bin/python"
"spark.submit.pyFiles" = "FOLDER/placed.py"
"spark.ui.enabled" = true
"spark.ui.port" = PORT
"spark.eventLog.enabled" = true
"spark.eventLog.compress" = false
"spark.eventLog.dir" = "EVENTS"
"spark.hadoop.fs.s3a.secret.key" = "KEY"
"spark.executor.memory" = "512m"
"spark.executor.extraJavaOptions" = "JAVA"
"spark.driver.memory" = "1g"
"""

pytestmark = pytest.mark.campaign


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A Redis with a password."""
    with private_server(tmp_path / "redis", requirepass=PASSWORD) as server:
        yield server


@pytest.fixture
def config(tmp_path: Path, free_port: int) -> Path:
    folder = tmp_path / "job"
    (folder / "events").mkdir(parents=True)
    (folder / "placed.py").write_text(TRANSFORM)
    # As a packed environment: the archive for the executors, and unpacked beside the driver.
    python = folder / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(archive := folder / "environment.tar.gz", "w:gz") as tar:
        tar.add(folder / "environment", ".")
    file, text = folder / "jobs.toml", CONFIG
    for word, value in {
        "EVENTS": f"file:{folder / 'events'}",
        "KEY": KEY,
        "JAVA": JAVA,
        "PORT": free_port,
        "ARCHIVE": archive,
        "FOLDER": folder,
    }.items():
        text = text.replace(word, str(value))
    file.write_text(text)
    return file


def url_of(server: Server) -> str:
    return f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"


def rows_of(config: Path) -> list[dict[str, str]]:
    import pyarrow.dataset  # it imports pandas

    rows: list[dict[str, str]] = (
        pyarrow.dataset.dataset(config.parent / "out").to_table().to_pylist()
    )
    return rows


def drained(queue: Queue) -> bool:
    stats = queue.stats()
    return stats.ready + stats.in_flight == 0


@contextlib.contextmanager
def running(config: Path, url: str) -> Iterator[psutil.Popen]:
    """Run a pipeline in its folder; at the end of the block kill what is left."""
    with (config.parent / "output").open("wb") as output:
        process = psutil.Popen(
            [*ACKQ, config.name, "--json"],
            cwd=config.parent,
            stdout=output,
            stderr=output,
            env={**os.environ, "ACKQ_REDIS_URL": url},
        )
    try:
        yield process
    finally:
        kill(process)


@pytest.mark.timeout(450)
def test_two_workers_get_the_environment_and_no_one_else_gets_the_passwords(
    tmp_path: Path, server: Server, config: Path, free_port: int
) -> None:
    url, pages, commands = url_of(server), "", Counter[str]()
    with (
        Queue.from_url(url, "jobs") as queue,
        standalone(tmp_path / "cluster", 2, {"ACKQ_REDIS_URL": url}) as cluster,
    ):
        ids = queue.push_many({"n": n} for n in range(2000))
        config.write_text(config.read_text().replace("MASTER", cluster.master))
        with running(config, url) as process:

            def all_written() -> bool:
                nonlocal pages
                pages = pages or _environment(f"http://127.0.0.1:{free_port}")
                commands.update(_command_lines())
                return process.poll() is not None or drained(queue)

            wait_until(all_written, "an empty queue", timeout=300)
            process.send_signal(signal.SIGTERM)
            assert process.wait(100) == 0, (config.parent / "output").read_text()[-3000:]
    rows = rows_of(config)
    assert sorted(row["id"] for row in rows) == sorted(ids)
    places = {row["place"] for row in rows}
    for worker in ("worker-0", "worker-1"):
        assert any(f"/{worker}/app-" in place for place in places)
    last = json.loads((config.parent / "output").read_text().splitlines()[-1])
    assert last["rows"] == 2000
    # Where a password could be seen: command lines, Spark's pages, its events, logs and files.
    assert any("CoarseGrainedExecutorBackend" in command for command in commands)
    assert "fs.s3a.secret.key" in pages
    files = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and path != config and "redis" not in path.relative_to(tmp_path).parts[0]
    ]
    assert any("events" in file.parts for file in files)
    for secret in (PASSWORD, KEY):
        assert secret not in pages
        assert not [command for command in commands if secret in command]
        assert not [file for file in files if secret.encode() in file.read_bytes()]


@pytest.mark.timeout(450)
def test_spark_submit_runs_the_command_with_its_own_master(server: Server, config: Path) -> None:
    config.write_text(config.read_text().replace("MASTER", "local[7]"))
    (config.parent / "run.py").write_text("from ackq.cli import main; main()")
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", "local[2]"]
    python = ["--conf", "spark.pyspark.python=./environment/bin/python"]
    environment = {
        "PATH": f"{config.parent}/environment/bin:/usr/bin:/bin",
        "JAVA_HOME": str(find_java()),
        "ACKQ_REDIS_URL": url_of(server),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with Queue.from_url(url_of(server), "jobs") as queue:
        ids = queue.push_many({"n": n} for n in range(100))
        done = subprocess.run(
            [*submit, *python, "run.py", "pipeline", "run", config.name, "--once"],
            cwd=config.parent,
            env=environment,
            check=False,
            text=True,
            capture_output=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert drained(queue)
    assert sorted(row["id"] for row in rows_of(config)) == sorted(ids)
    events = [path for path in (config.parent / "events").rglob("*") if path.is_file()]
    assert any(b'"spark.master":"local[2]"' in event.read_bytes() for event in events)


def _environment(driver: str) -> str:
    """Return what Spark's page and its interface show of the settings, once it is up."""
    applications = _page(f"{driver}/api/v1/applications")
    if not applications.startswith("["):
        return ""  # it is starting
    name = json.loads(applications)[0]["id"]
    return _page(f"{driver}/environment/") + _page(
        f"{driver}/api/v1/applications/{name}/environment"
    )


def _page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as page:
            text: str = page.read().decode()
            return text
    except OSError:
        return ""


def _command_lines() -> Iterator[str]:
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            yield " ".join(each.cmdline())
