"""Rows are counted while a sink writes them, and only then counted again if some were not read."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.spark.pipeline import Pipeline, micro_batches, run
from tests.spark.test_pipeline import CHECKS, SCHEMA, ids, push, reasons, written

BAD = b'{"id":"x","kind":"a","size":100}'


@pytest.fixture
def config(name: str, url: str, tmp_path: Path) -> dict[str, object]:
    return {
        "name": name,
        "checkpoint": str(tmp_path / "checkpoint"),
        "source": {"queue": name, "options": {"url": url}},
        "schema": SCHEMA,
        "checks": CHECKS,
        "sink": {"path": str(tmp_path / "out")},
    }


def test_files_are_written_in_one_pass(
    spark: SparkSession,
    queue: Queue,
    config: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(micro_batches, "_counts")
    good = push(queue, 0, 50)
    queue.push(BAD)
    progress = Pipeline(config, spark=spark).run(once=True)
    assert (progress.rows, progress.rejected) == (51, 1)
    assert ids(written(tmp_path / "out")) == good
    assert reasons(queue) == {"check: size": 1}


def test_rejected_rows_that_the_sink_does_not_need_are_dead_letters_too(
    spark: SparkSession, queue: Queue, config: dict[str, object], tmp_path: Path
) -> None:
    for sql in ("SELECT * FROM messages LIMIT 1", "SELECT * FROM messages WHERE 1 = 0"):
        push(queue, 0, 50)
        queue.push(BAD)
        progress = Pipeline({**config, "transform": {"sql": sql}}, spark=spark).run(once=True)
        assert (progress.rows, progress.rejected) == (51, 1)
    assert len(written(tmp_path / "out")) == 1
    assert reasons(queue) == {"check: size": 2}


def test_structured_streaming_is_left_out_unless_a_check_needs_the_time(
    spark: SparkSession,
    queue: Queue,
    config: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = Pipeline(config, spark=spark)
    timed = Pipeline({**config, "checks": {"now": "current_timestamp() > '2020-01-01'"}})
    assert not pipeline.plan.uses_current_time(spark)
    assert timed.plan.uses_current_time(spark)
    monkeypatch.delattr(run, "SparkQuery")
    good = push(queue, 0, 3)
    pipeline.run(once=True)
    assert ids(written(tmp_path / "out")) == good
