"""Several sinks, static tables, and a run that stops at too many rejects."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import redis
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.errors import PipelineConfigError, PipelineFailed
from ackq.spark.launch import PARQUET_TIMES, SETTINGS
from ackq.spark.pipeline import sinks as pipeline_sinks
from tests.spark.test_pipeline import Make, ids, make, push, reasons, written

__all__ = ["make"]


def test_others_read_the_times_in_files_of_parquet_as_they_are(
    tmp_path: Path, spark: SparkSession
) -> None:
    times = [datetime.fromisoformat(f"{day}T12:30+00:00") for day in ("1600-01-01", "9999-12-31")]
    before = spark.conf.get(PARQUET_TIMES)
    spark.conf.set(PARQUET_TIMES, SETTINGS[PARQUET_TIMES])
    try:
        rows = spark.createDataFrame([(each,) for each in times], "at TIMESTAMP")
        rows.write.parquet(str(tmp_path / "out"))
    finally:
        spark.conf.set(PARQUET_TIMES, str(before))
    found = pq.read_table(tmp_path / "out")["at"].to_pylist()
    assert sorted(each.replace(tzinfo=times[0].tzinfo) for each in found) == times


def test_each_of_several_sinks_has_its_rows_once_though_the_batch_is_replayed(
    make: Make,
    queue: Queue,
    name: str,
    url: str,
    plain_client: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
) -> None:
    good = push(queue, 0, 30)
    queue.push({"id": "x", "kind": "c", "size": -1})
    (tmp_path / "kinds.csv").write_text("kind,label\na,even\nb,odd\n")
    target = {"queue": f"{name}-out", "options": {"url": url}}
    changes: dict[str, Any] = {
        "tables": {
            "kinds": {
                "path": str(tmp_path / "kinds.csv"),
                "format": "csv",
                "ddl": "kind STRING, label STRING",
                "options": {"header": True},
            }
        },
        "transform": {"sql": "SELECT m.*, label FROM messages m JOIN kinds USING (kind)"},
        "sink": None,
        "sinks": {
            "all": {"path": str(tmp_path / "out")},
            "odd": {**target, "sql": "SELECT id FROM rows WHERE label = 'odd'"},
            "even": {**target, "sql": "SELECT id FROM rows WHERE label = 'even'"},
        },
    }
    write = pipeline_sinks.write

    def failing(sink: Any, *args: Any) -> None:
        write(sink, *args)
        if sink.name == "odd":
            raise OSError("cut")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline_sinks, "write", failing)
        with pytest.raises(PipelineFailed, match="cut"):
            make(**changes).run(once=True)
    with Queue(plain_client, f"{name}-out") as out:
        assert out.stats().ready == 15
        progress = make(**changes).run(once=True)
        assert (progress.rows, progress.rejected) == (31, 1)
        assert sorted(each.id for each in out.peek(100)) == good
    rows = written(tmp_path / "out")
    assert ids(rows) == good
    assert {row["label"] for row in rows} == {"even", "odd"}
    assert reasons(queue) == {"check: size": 1}


def test_a_run_stops_before_a_batch_with_too_many_rejects(
    make: Make, queue: Queue, tmp_path: Path, url: str
) -> None:
    good = push(queue, 0, 120)
    queue.push_many({"id": f"x{n}", "kind": "a", "size": -1} for n in range(12))
    source = {"queue": queue.name, "options": {"url": url, "maxMessagesPerTrigger": 60}}
    changes = {"source": source, "trigger": "once", "every": None}
    with pytest.raises(PipelineFailed, match=r"12 of the last 132 messages .*, 9\.1%, and"):
        make(**changes, rejects={"stop_above": 0.05}).run()
    assert queue.stats().in_flight == 12
    assert not reasons(queue)
    assert ids(written(tmp_path / "out")) == good
    make(**changes, rejects={"stop_above": 0.1}).run()
    assert reasons(queue) == {"check: size": 12}


@pytest.mark.campaign
def test_a_row_that_would_go_back_to_the_source_becomes_a_dead_letter(
    make: Make, queue: Queue, name: str, url: str, plain_client: redis.Redis
) -> None:
    good = push(queue, 0, 1)
    queue.push({"id": "loop", "kind": name, "size": 1})
    sql = f"SELECT id, if(kind = '{name}', kind, '{name}-out') AS goes FROM messages"
    sink = {"queue_column": "goes", "options": {"url": url}}
    progress = make(transform={"sql": sql}, sink=sink).run(once=True)
    assert (progress.rows, progress.rejected) == (2, 1)
    assert reasons(queue) == {f"transform: goes names the source {name}": 1}
    with Queue(plain_client, f"{name}-out") as out:
        assert sorted(each.id for each in out.peek(100)) == good


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tables": {"t": {"path": "/nowhere"}}}, r"\[tables.t\] path: .*PATH_NOT_FOUND"),
        (
            {"tables": {"t": {"path": "/nowhere", "format": "delta"}}},
            r"\[tables.t\] format: Spark does not find the format 'delta'",
        ),
        ({"tables": {"t": {"path": "/nowhere", "ddl": "a STRNG"}}}, r"\[tables.t\] ddl: "),
        (
            {"sink": None, "sinks": {"a": {"path": "/x", "sql": "SELECT nope FROM rows"}}},
            r"\[sinks.a\] sql: .*`nope`",
        ),
        ({"sink": None, "sinks": {"a": {"format": "iceberg"}}}, r"\[sinks.a\] format: "),
    ],
)
def test_an_error_names_the_sink_or_the_table(
    make: Make, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(PipelineConfigError, match=says):
        make(**changes).check()
