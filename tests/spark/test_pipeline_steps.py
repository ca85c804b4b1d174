"""A pipeline dies between any two of its steps, with and without Structured Streaming.

In the ordinary run a death is an error that no part of the pipeline handles: nothing after it
happens in that run, as after a crash, but Redis and the checkpoint keep what they have. The
campaign kills real drivers, each with a pipeline from every source to every sink;
test_pipeline_kills kills them within a read and within the commit of a sink.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from ackq.embedded import Server
from ackq.errors import PipelineFailed
from ackq.spark.pipeline import Pipeline
from tests.servers.private import private_server
from tests.spark.crash_matrix import (
    END,
    SINKS,
    SOURCES,
    SPARKS,
    STEPS,
    STREAMING,
    Stage,
    attempt,
    combinations,
    plant,
)
from tests.spark.home import environment
from tests.spark.killed import ROOT, run_until_killed


class Died(Exception):
    """The driver was killed."""


def die() -> None:
    raise Died


@pytest.fixture
def stage(plain_client: redis.Redis, name: str, url: str, tmp_path: Path) -> Stage:
    return Stage(plain_client, name, url, tmp_path)


@pytest.mark.timeout(600)
def test_a_pipeline_that_dies_after_any_step_has_every_row_once(
    spark: SparkSession, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(stage.config("queue", "files"), spark=spark)
    stage.fill("queue")
    for step in STEPS:
        for each in (step, f"{STREAMING}{step}") if step in SPARKS else (step,):
            with monkeypatch.context() as patched:
                plant(patched, each, die)
                assert "Died" in attempt(pipeline)
    with monkeypatch.context() as patched:
        plant(patched, f"{STREAMING}{END}", die)
        assert not attempt(pipeline)
    stage.fill("queue")
    assert not attempt(pipeline)
    assert stage.arrived("files") == stage.expected(bad=False)
    assert stage.dead() == stage.expected(bad=True)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with private_server(tmp_path / "redis") as server:
        yield server


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_drivers_killed_after_every_step_lose_no_row_from_any_source_to_any_sink(
    server: Server, tmp_path: Path
) -> None:
    began, killed = time.monotonic(), 0
    variables = {**environment(), "ACKQ_REDIS_URL": server.url}
    module = "tests.spark.crash_matrix"

    def run_to_the_end() -> None:
        command = [sys.executable, "-m", module, str(tmp_path), server.url, END]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=True, timeout=1800)

    with redis.Redis.from_url(server.url) as client:
        stages = {
            (source, sink): Stage.of(client, server.url, tmp_path, source, sink)
            for source in SOURCES
            for sink in SINKS
        }
        for (source, _), stage in stages.items():
            stage.fill(source)
        for step in (*STEPS, *(f"{STREAMING}{each}" for each in SPARKS)):
            (tmp_path / "reached").unlink(missing_ok=True)
            run_until_killed(
                module,
                tmp_path,
                server.url,
                step,
                folder=tmp_path,
                environment=variables,
                timeout=1800,
            )
            killed += len(combinations(step))
            print(f"killed after {step!r}: {killed} pipelines, {time.monotonic() - began:.0f} s")
        run_to_the_end()
        for (source, _), stage in stages.items():
            stage.fill(source)
        run_to_the_end()
        for (source, sink), stage in stages.items():
            assert stage.arrived(sink) == stage.expected(bad=False), (source, sink)
            assert stage.dead() == stage.expected(bad=True), (source, sink)


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sink", ["files", "queue"])
def test_a_row_is_never_lost_though_the_checks_change_before_the_replay(
    spark: SparkSession, stage: Stage, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = stage.config("queue", sink)
    loose = {**strict, "checks": {}}
    stage.fill("queue")
    for step in STEPS:
        for config in (strict, loose):
            with monkeypatch.context() as patched, contextlib.suppress(PipelineFailed):
                plant(patched, step, die)
                Pipeline(config, spark=spark).run(once=True)
    Pipeline(strict, spark=spark).run(once=True)
    found = stage.arrived(sink).keys() | stage.dead().keys()
    assert found == stage.expected(bad=True).keys() | stage.expected(bad=False).keys()
