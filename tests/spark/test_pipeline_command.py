"""`ackq pipeline run` as a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ackq import Queue
from ackq.queue.claims_client import Claims
from ackq.spark.launch import find_java
from tests.spark.killed import FAULTS, running_pipeline
from tests.waiting import wait_until


@pytest.mark.campaign
def test_a_pipeline_that_is_fenced_off_ends_with_a_code_of_its_own(
    queue: Queue, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, it prints only JSON, even if Java has a warning."""
    # Java would print to stdout that this archive belongs to another program.
    archive = tmp_path / "stale.jsa"
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-launcher_*.jar")
    subprocess.run(
        [
            find_java() / "bin" / "java",
            f"-XX:ArchiveClassesAtExit={archive}",
            "-cp",
            jar,
            "org.apache.spark.launcher.Main",
            "unknown",
        ],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"-XX:SharedArchiveFile={archive}")
    config = tmp_path / "jobs.toml"
    config.write_text(
        f'name = "{queue.name}"\ncheckpoint = "state"\nsource.queue = "{queue.name}"\n'
        'sink.format = "noop"\n'
    )
    queue.push({"id": "first"})
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from ackq.cli import main; main()",
            "pipeline",
            "run",
            config,
            "--url",
            url,
            "--json",
        ],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
    )
    try:
        assert process.stdout is not None
        while not json.loads(process.stdout.readline())["batches"]:
            pass  # the query has not started
        with Claims.from_url(url, queue.name, queue.name) as claims:
            claims.begin()
        queue.push({"id": "second"})
        _, errors = process.communicate(timeout=100)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 5
    assert "another process took it over" in errors.splitlines()[-1]
    assert "incubator" not in errors  # no warning of Java
    assert queue.stats().ready == 1


@pytest.mark.campaign
def test_a_pipeline_whose_java_dies_says_what_to_change(
    queue: Queue, url: str, tmp_path: Path
) -> None:
    config = tmp_path / "jobs.toml"
    sleep = "SELECT reflect('java.lang.Thread', 'sleep', 600000L) AS slow FROM messages"
    config.write_text(
        f'name = "{queue.name}"\ncheckpoint = "state"\nsource.queue = "{queue.name}"\n'
        f'sink.format = "noop"\ntransform.sql = "{sleep}"\n'
    )
    queue.push({"id": "first"})
    with running_pipeline(config, url, tmp_path / "output") as process:
        wait_until(lambda: queue.stats().claimed == 1, "the claim", 200)
        (java,) = [child for child in process.children(recursive=True) if child.name() == "java"]
        java.kill()
        assert process.wait(100) == 3
    message = (tmp_path / "output").read_text().splitlines()[-1]
    assert "its process was killed: raise spark.driver.memory in [spark]" in message
    assert "Nothing is lost" in message


@pytest.mark.campaign
def test_failing_rows_are_found_without_pandas(
    queue: Queue, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = os.pathsep.join(filter(None, [str(FAULTS), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", paths)
    monkeypatch.setenv("NO_PANDAS", "1")
    config = tmp_path / "jobs.toml"
    config.write_text(
        f'name = "{queue.name}"\ncheckpoint = "state"\nsource.queue = "{queue.name}"\n'
        f'schema.ddl = "id STRING, n INT"\nsink.queue = "{queue.name}-out"\n'
        'transform.sql = "SELECT id, IF(n = 3, NULL, id) AS value FROM messages"\n'
        'sink.options.valueColumn = "value"\n'
    )
    queue.push_many({"id": f"m-{n}", "n": n} for n in range(6))
    with running_pipeline(config, url, tmp_path / "output") as process:
        assert process.wait(100) == 0, (tmp_path / "output").read_text()
    (letter,) = queue.dead_letters()
    assert letter.id == "m-3"
    assert letter.reason.startswith("transform: InvalidMessage: row 0: column 'value' is null")
