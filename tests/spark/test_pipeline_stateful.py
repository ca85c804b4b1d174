"""Sinks whose SQL covers all rows over time: windows and totals, late rows, replays, errors."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.errors import PipelineConfigError, PipelineFailed
from ackq.spark.options import Reading
from ackq.spark.pipeline import Progress
from ackq.spark.pipeline import sinks as pipeline_sinks
from ackq.spark.pipeline.config import Sink
from ackq.spark.pipeline.sinks import Drafts, RowLog
from ackq.spark.pipeline.stateful import LateRows
from ackq.spark.shards import Batch, Shards
from tests.spark.test_pipeline import Make, make, reasons, written
from tests.waiting import wait_until

__all__ = ["make"]

SCHEMA = {"ddl": "id STRING, time TIMESTAMP, kind STRING, size INT"}
WINDOWS = """
SELECT kind, date_format(window.start, 'HH:mm') AS start, count(*) AS rows, sum(size) AS size
FROM rows GROUP BY window(time, '10 minutes'), kind
"""
TOTALS = "SELECT kind AS id, count(*) AS rows, sum(size) AS size FROM rows GROUP BY kind"
WATERMARK = {"column": "time", "delay": "10 minutes"}


def push(queue: Queue, *minutes: int, size: int = 1) -> None:
    """Push a message of each kind for each minute after noon."""
    queue.push_many(
        {
            "id": f"{kind}-{minute}",
            "kind": kind,
            "size": size,
            "time": f"2026-01-05T{12 + minute // 60}:{minute % 60:02}:00Z",
        }
        for minute in minutes
        for kind in "ab"
    )


def stateful(folder: Path, url: str, name: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "checks": {"size": "size > 0"},
        "sink": None,
        "sinks": {
            "windows": {"path": str(folder / "windows"), "sql": WINDOWS, "watermark": WATERMARK},
            "totals": {
                "queue": f"{name}-out",
                "options": {"url": url},
                "sql": TOTALS,
                "output_mode": "update",
            },
        },
    }


def windows(folder: Path) -> Counter[tuple[str, str, int, int]]:
    rows = written(folder / "windows")
    return Counter((row["kind"], row["start"], row["rows"], row["size"]) for row in rows)


def test_windows_and_totals_cover_all_batches_and_runs_though_one_is_replayed(
    make: Make,
    queue: Queue,
    name: str,
    url: str,
    plain_client: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes = stateful(tmp_path, url, name)
    push(queue, *range(0, 40, 2))  # more than one batch
    queue.push({"id": "x", "kind": "a", "size": 0, "time": "2026-01-05T12:00:00Z"})
    write = pipeline_sinks.write_result

    def failing(sink: Sink, *args: Any) -> None:
        write(sink, *args)
        if sink.name == "totals" and sink.stateful is not None:
            # The other query must know its watermark, or it takes both runs as one micro-batch.
            commits = Path(sink.stateful.folder).with_name("windows") / "state/commits/0"
            wait_until(commits.exists, "the first windows")
            raise OSError("cut")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline_sinks, "write_result", failing)
        with pytest.raises(PipelineFailed, match=r"\[sinks.totals\] batch 0 failed: OSError: cut"):
            make(**changes).run(once=True)
    assert queue.stats().in_flight == 0
    assert reasons(queue) == {"check: size": 1}
    push(queue, *[1] * 20)  # later than the watermark, 12:28, allows: the window is final
    push(queue, 29, 70)
    progress = make(**changes).run(once=True)
    assert (progress.rows, progress.late) == (44, 40)
    final = {
        (kind, start, rows, rows)
        for kind in "ab"
        for start, rows in (("12:00", 5), ("12:10", 5), ("12:20", 6), ("12:30", 5))
    }
    assert windows(tmp_path) == Counter(final)
    with Queue(plain_client, f"{name}-out") as out:
        bodies = [json.loads(each.body) for each in out.peek(100)]
    totals = sorted((body["id"], body["rows"], body["size"]) for body in bodies)
    assert totals == [("a", 20, 20), ("a", 42, 42), ("b", 20, 20), ("b", 42, 42)]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_late_rows_are_those_of_the_files_of_a_micro_batch(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Each file has a row at 12:00 and one at 12:20. Two are of micro-batch 1."""
    times = f"SELECT CAST(concat('2026-01-05T12:', m, ':00Z') AS {kind}) AS time, 'x' AS id"
    frame = spark.sql(f"{times} FROM VALUES '00', '20' AS t(m)").coalesce(1)
    log, offsets = tmp_path / "state" / "sources" / "0", tmp_path / "state" / "offsets"
    entries = []
    for at in range(4):
        frame.write.parquet(str(tmp_path / f"rows {at}"))
        (file,) = (tmp_path / f"rows {at}").glob("*.parquet")
        entries.append(json.dumps({"path": file.as_uri(), "timestamp": 1, "batchId": at}))
    log.mkdir(parents=True)
    offsets.mkdir()
    (log / "1.compact").write_text("\n".join(["v1", *entries[:2]]))
    (log / "2").write_text(f"v1\n{entries[2]}")
    watermark = datetime(2026, 1, 5, 12, 10, tzinfo=UTC).timestamp() * 1000
    for batch, end in ((0, 0), (1, 2), (2, 2)):
        metadata = json.dumps({"batchWatermarkMs": int(watermark)})
        (offsets / str(batch)).write_text(f'v1\n{metadata}\n{{"logOffset":{end}}}')
    late = LateRows(str(tmp_path / "state"), frame.schema, "time")
    assert late.count(spark, 1) == 2
    assert late.count(spark, 2) == 0  # a micro-batch without files, which only moves the watermark
    (offsets / "2").write_text("v9\nx\ny")
    assert late.count(spark, 2) is None
    assert late.count(spark, 3) is None


def test_the_log_has_each_batch_once_and_whole(spark: SparkSession, tmp_path: Path) -> None:
    log, rows = RowLog(str(tmp_path)), spark.range(3).coalesce(1)
    reading = Reading.of({"topic": "t"})
    killed, frozen, last = Shards(reading), Shards(reading), Shards(reading)

    def batch(run: Shards, number: int) -> Batch:
        return run.batch(number, {"first": 3 * number + 1, "index": 3 * number + 3})

    drafts = Drafts(spark, str(tmp_path / "rows"), str(tmp_path / "drafts"))
    log.append(rows, batch(last, 0))
    log.append(spark.range(9), batch(last, 0))  # replayed
    thawed = batch(frozen, 1)
    rows.write.parquet(drafts.path(thawed))
    log.append(rows, batch(killed, 1))
    assert Path(drafts.path(thawed)).exists()  # of a later run, which may be writing
    drafts.publish(thawed)
    assert not Path(drafts.path(thawed)).exists()
    counts: list[int] = []
    writer = log.read(spark, rows.schema).writeStream.trigger(availableNow=True)
    writer = writer.foreachBatch(lambda batch, _: counts.append(batch.count()))
    writer = writer.option("checkpointLocation", str(tmp_path / "state"))
    writer.start().awaitTermination()
    assert counts == [6]
    rows.write.parquet(drafts.path(batch(killed, 7)))
    log.append(rows, batch(last, 2))
    assert not list((tmp_path / "drafts").iterdir())
    assert not list((tmp_path / "rows").glob("*/*/*"))  # no draft within a batch


@pytest.mark.campaign
def test_a_run_that_goes_on_writes_results_and_stops_between_batches(
    make: Make, queue: Queue, name: str, url: str, tmp_path: Path
) -> None:
    changes = stateful(tmp_path, url, name)
    del changes["sinks"]["totals"]
    push(queue, 0, 5, 30)
    pipeline = make(**changes)

    def watch(progress: Progress) -> None:
        if windows(tmp_path):
            pipeline.stop()

    assert pipeline.run(on_progress=watch).state == "stopped"
    assert windows(tmp_path) == {("a", "12:00", 2, 2): 1, ("b", "12:00", 2, 2): 1}
    log = tmp_path / "checkpoint" / "sinks" / "windows" / "rows"
    push(queue, 50)
    make(**changes).run(once=True)
    push(queue, 70)
    make(**changes).run(once=True)
    assert len(list(log.iterdir())) <= 2  # what has been read is removed
    assert sum(windows(tmp_path).values()) == 6


@pytest.mark.campaign
def test_a_query_that_fails_names_its_sink_and_goes_on_when_it_is_corrected(
    make: Make, queue: Queue, name: str, url: str, tmp_path: Path
) -> None:
    changes = stateful(tmp_path, url, name)
    right = changes["sinks"]["windows"]["sql"]
    push(queue, 0, 30)
    changes["sinks"]["windows"]["sql"] = right.replace("sum(size)", "sum(1 div (size - 1))")
    with pytest.raises(PipelineFailed, match=r"\[sinks.windows\] batch 0 failed: .*DIVIDE_BY_ZERO"):
        make(**changes).run(once=True)
    changes["sinks"]["windows"]["sql"] = right
    make(**changes).run(once=True)
    assert windows(tmp_path) == {("a", "12:00", 1, 1): 1, ("b", "12:00", 1, 1): 1}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"output_mode": "complete"}, r"\[sinks.a\] output_mode: must be 'append' or 'update'"),
        ({"watermark": {"column": "time"}}, r"\[sinks.a.watermark\] delay: is required"),
        ({"watermark": WATERMARK, "sql": None}, r"\[sinks.a\] sql: is required: the query that"),
        ({"output_mode": "append"}, r"\[sinks.a\] output_mode: .*without watermark"),
        (
            {"watermark": {"column": "nope", "delay": "1 hour"}},
            r"\[sinks.a.watermark\] column: .*`nope`",
        ),
        (
            {"watermark": {"column": "time", "delay": "soon"}},
            r"\[sinks.a.watermark\] column: .*soon",
        ),
        ({"watermark": WATERMARK, "sql": "SELECT nope FROM rows"}, r"\[sinks.a\] sql: .*`nope`"),
    ],
)
def test_an_error_of_a_stateful_sink_names_its_key(
    make: Make, changes: dict[str, Any], says: str
) -> None:
    sink = {"path": "/x", "sql": WINDOWS, **changes}
    sink = {key: value for key, value in sink.items() if value is not None}
    with pytest.raises(PipelineConfigError, match=says):
        make(schema=SCHEMA, checks={}, sink=None, sinks={"a": sink}).check()
