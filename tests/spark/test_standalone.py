"""`ackq pipeline submit` on a cluster of two workers, whose Python has no packages of ackq's."""

import contextlib
import json
import os
import re
import shlex
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
from tests.servers.private import private_server
from tests.spark.cluster import BARE, SPARK, kill, standalone
from tests.spark.home import JAVA
from tests.waiting import wait_until

PASSWORD, KEY = "canary-4711", "canary-s3-4712"
ACKQ = [sys.executable, "-c", "from ackq.cli import main; main()", "pipeline", "submit"]
TRANSFORM = """
import sys
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

@F.udf(StringType())
def place(id):
    import redis
    import placed
    return redis.__file__

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
    file = folder / "jobs.toml"
    text = CONFIG.replace("EVENTS", f"file:{folder / 'events'}").replace("KEY", KEY)
    text = text.replace("JAVA", JAVA)
    file.write_text(text.replace("PORT", str(free_port)))
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
def submitted(config: Path, url: str, *arguments: str) -> Iterator[psutil.Popen]:
    """Submit a pipeline in its folder; at the end of the block kill what is left."""
    with (config.parent / "output").open("wb") as output:
        process = psutil.Popen(
            [*ACKQ, config.name, *arguments],
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
def test_two_workers_get_the_packages_and_no_one_else_gets_the_passwords(
    tmp_path: Path, server: Server, config: Path, free_port: int
) -> None:
    url, pages, commands = url_of(server), "", Counter[str]()
    with (
        Queue.from_url(url, "jobs") as queue,
        standalone(tmp_path / "cluster", 2, {"ACKQ_REDIS_URL": url}) as cluster,
    ):
        ids = queue.push_many({"n": n} for n in range(2000))
        with submitted(config, url, "--master", cluster.master, "--json") as process:

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
        assert any(
            f"/{worker}/app-" in place and "/ackq_packages/redis/" in place for place in places
        )
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
def test_what_is_prepared_runs_where_only_python_and_spark_are(
    tmp_path: Path, server: Server, config: Path
) -> None:
    """As in a container of YARN: the files of the driver are in its working directory."""
    url, sent, container = url_of(server), tmp_path / "sent", tmp_path / "container"
    text = re.sub('"(state|out)"', rf'"file:{config.parent}/\1"', config.read_text())
    config.write_text(text.replace("[spark]", '[spark]\n"spark.master" = "local[7]"'))
    with Queue.from_url(url, "jobs") as queue:
        ids = queue.push_many({"n": n} for n in range(100))
        done = subprocess.run(
            [
                *ACKQ,
                config.name,
                "--master",
                "yarn",
                "--deploy-mode",
                "cluster",
                "--once",
                "--prepare",
                sent,
            ],
            cwd=config.parent,
            env={**os.environ, "ACKQ_REDIS_URL": url},
            check=True,
            text=True,
            capture_output=True,
        )
        program, *arguments = shlex.split(done.stdout)
        assert program == "spark-submit"
        (container / "ackq_packages").mkdir(parents=True)
        with tarfile.open(sent / "ackq_packages.tar.gz") as tar:
            tar.extractall(container / "ackq_packages", filter="data")
        (container / config.name).write_bytes(config.read_bytes())
        done = subprocess.run(
            [
                SPARK / "bin" / "spark-submit",
                "--master",
                "local[2]",
                "--deploy-mode",
                "client",
                *arguments,
            ],
            cwd=container,
            check=False,
            text=True,
            capture_output=True,
            timeout=300,
            env={
                "PATH": f"{BARE}:/usr/bin:/bin",
                "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
                "PYTHONPATH": "./ackq_packages",
                "ACKQ_REDIS_URL": url,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert drained(queue)
    rows = rows_of(config)
    assert sorted(row["id"] for row in rows) == sorted(ids)
    assert all(row["place"].startswith(f"{container}/ackq_packages/redis/") for row in rows)
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
