"""The pipeline in one session: everything arrives once, and nothing holds up the rest."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from ackq import Queue
from ackq.errors import ConfigurationError, PipelineConfigError, PipelineFailed, PipelineFenced
from ackq.membership.shards import shard_names
from ackq.queue.claims_client import Claims
from ackq.sharded import ShardedQueue
from ackq.spark.pipeline import Pipeline, Progress, run
from ackq.spark.pipeline import sinks as pipeline_sinks
from ackq.spark.pipeline.display import display
from ackq.spark.pipeline.plan import Plan

Make = Callable[..., Pipeline]
SCHEMA = {"ddl": "id STRING, kind STRING, size INT", "not_null": ["kind"]}
MALFORMED = "does not parse: not a JSON object"
CHECKS = {"size": "size BETWEEN 0 AND 99"}


@pytest.fixture
def make(spark: SparkSession, url: str, name: str, tmp_path: Path) -> Make:
    """``make(sink=..., ...)``: a pipeline, by default from the test's queue to Parquet."""

    def make(**changes: Any) -> Pipeline:
        config: dict[str, Any] = {
            "name": name,
            "checkpoint": str(tmp_path / "checkpoint"),
            "source": {"queue": name, "options": {"url": url, "maxMessagesPerTrigger": 40}},
            "schema": SCHEMA,
            "checks": CHECKS,
            "sink": {"path": str(tmp_path / "out")},
            "every": 0,
        }
        given = {**config, **changes}
        given = {key: value for key, value in given.items() if value is not None}
        return Pipeline(given, spark=spark)

    return make


def written(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of Parquet files as any reader finds them."""
    if not folder.exists():
        return []
    import pyarrow.dataset  # it imports pandas

    rows: list[dict[str, Any]] = (
        pyarrow.dataset.dataset(folder, partitioning="hive").to_table().to_pylist()
    )
    return rows


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(row["id"] for row in rows)


def push(queue: Queue, first: int, last: int) -> list[str]:
    numbers = range(first, last)
    return sorted(
        queue.push_many(
            [{"id": f"m-{n:04}", "kind": "ab"[n % 2], "size": n % 100} for n in numbers]
        )
    )


def reasons(queue: Queue) -> Counter[str]:
    return Counter(letter.reason for letter in queue.dead_letters(1000))


def test_good_rows_are_in_the_files_once_and_the_others_dead_letters_as_they_were(
    make: Make, queue: Queue, tmp_path: Path
) -> None:
    good = push(queue, 0, 60)
    bad = {
        b"not json": MALFORMED,
        b"": MALFORMED,
        b'{"id":"x","kind":"a","size":1} {"id":"y"}': MALFORMED,
        b'{"id":"x","kind":"a","size":"many"}': "does not parse: size is not INT",
        b'{"id":"x","kind":[{}],"size":[1]}': "does not parse: size is not INT",
        b'\xff{"id":"x"}': MALFORMED,
        b'[{"id":"x"}]': MALFORMED,
        b'{"id":"x","size":1}': "null: kind",
        b'{"id":"x","kind":"a","size":100}': "check: size",
        b'{"id":"x","kind":"a"}': "check: size",
    }
    queue.push_many(list(bad))
    progress = make(sink={"path": str(tmp_path / "out"), "partition_by": ["kind"]}).run(once=True)
    rows = written(tmp_path / "out")
    assert ids(rows) == good
    assert {row["kind"] for row in rows} == {"a", "b"}
    assert set(rows[0]) == {"id", "kind", "size", "ackq_batch"}
    assert {letter.body: letter.reason for letter in queue.dead_letters(100)} == bad
    stats = queue.stats()
    assert (stats.ready, stats.in_flight, stats.dead) == (0, 0, len(bad))
    assert (progress.rows, progress.written, progress.rejected) == (70, 60, 10)
    assert progress.reasons == Counter(bad.values())
    assert progress.batches == 2


def test_the_session_of_a_batch_does_not_become_the_active_one(
    spark: SparkSession, make: Make, queue: Queue
) -> None:
    """It has the settings of the batch, and later calls in this process would get it."""
    queue.push_many([b"rejected"])
    assert make().run(once=True).rejected == 1
    assert SparkSession.getActiveSession() is spark


@pytest.mark.parametrize("where", [pytest.param("before", marks=pytest.mark.campaign), "after"])
def test_a_batch_that_failed_at_its_sink_is_there_once_when_it_is_run_again(
    make: Make, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    good = push(queue, 0, 30)
    queue.push(b"not json")
    write = pipeline_sinks.write

    def failing(*args: Any) -> None:
        if where == "after":
            write(*args)
        raise OSError("the disk is on fire")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline_sinks, "write", failing)
        with pytest.raises(
            PipelineFailed,
            match=r"batch 0 failed while \[sink\] was written: OSError: the disk is on fire\. "
            r"Nothing is lost.* The whole report is in .*/checkpoint/last_failure\.log$",
        ) as raised:
            make().run(once=True)
    assert raised.value.batch == 0
    assert isinstance(raised.value.__cause__, OSError)
    assert queue.stats().in_flight == 31
    assert make().run(once=True).rows == 31
    assert ids(written(tmp_path / "out")) == good
    assert reasons(queue) == {MALFORMED: 1}
    assert queue.stats().in_flight == 0


@pytest.mark.campaign
def test_a_callable_that_raises_ends_the_run_and_the_next_one_begins_with_its_rows(
    make: Make, queue: Queue, tmp_path: Path
) -> None:
    good = push(queue, 0, 10)

    def broken(messages: DataFrame) -> DataFrame:
        raise LookupError("no such column")

    with pytest.raises(PipelineFailed, match="batch 0 failed: LookupError: no such column"):
        make(transform={"callable": broken}).run(once=True)
    with pytest.raises(PipelineFailed, match="callable: must return a DataFrame, but returned int"):
        make(transform={"callable": lambda messages: 5}).run(once=True)
    make(transform={"callable": lambda messages: messages.select("id")}).run(once=True)
    rows = written(tmp_path / "out")
    assert ids(rows) == good
    assert set(rows[0]) == {"id", "ackq_batch"}


@pytest.mark.campaign
def test_sql_sees_the_valid_rows_of_a_batch(make: Make, queue: Queue, tmp_path: Path) -> None:
    push(queue, 0, 10)
    queue.push({"id": "x", "kind": "c", "size": -1})
    sql = "SELECT kind, count(*) AS rows, sum(size) AS size FROM messages GROUP BY kind"
    make(transform={"sql": sql}).run(once=True)
    rows = [(row["kind"], row["rows"], row["size"]) for row in written(tmp_path / "out")]
    assert sorted(rows) == [("a", 5, 20), ("b", 5, 25)]


@pytest.mark.campaign
def test_messages_that_are_not_parsed_have_the_columns_of_the_source(
    make: Make, queue: Queue, tmp_path: Path, name: str
) -> None:
    queue.push({"id": "m-1"})
    queue.push(b"no id")
    make(schema={}, checks={"id": "id IS NOT NULL"}).run(once=True)
    (row,) = written(tmp_path / "out")
    claim = int(row.pop("ackq_batch").rpartition("-")[2])
    body = {"id": "m-1", "value": '{"id":"m-1"}'}
    assert row == {**body, "queue": name, "batch": claim, "position": 0}
    assert reasons(queue) == {"check: id": 1}


@pytest.mark.campaign
def test_rejects_of_a_shard_are_its_own_dead_letters(
    make: Make, name: str, url: str, plain_client: redis.Redis, tmp_path: Path
) -> None:
    with ShardedQueue(plain_client, name, shards=2) as sharded:
        rows = [{"id": f"m-{n}", "kind": "a", "size": n} for n in range(90, 110)]
        sharded.push_many(rows, key=lambda message: message["id"])
        source = {"queue": name, "options": {"url": url, "shards": 2}}
        make(source=source).run(once=True)
    dead = []
    for shard in shard_names(name, 2):
        with Queue(plain_client, shard) as queue:
            assert queue.stats().in_flight == queue.stats().ready == 0
            dead.append(queue.stats().dead)
    assert sum(dead) == len(written(tmp_path / "out")) == 10
    assert all(dead)


def test_a_stop_lets_the_batch_end_and_leaves_the_rest_where_it_is(
    make: Make, queue: Queue, tmp_path: Path
) -> None:
    good = push(queue, 0, 160)
    pipeline = make()

    def watch(progress: Progress) -> None:
        if progress.batches and not pipeline.stops:
            pipeline.stop()

    progress = pipeline.run(on_progress=watch)
    assert progress.state == "stopped"
    done = ids(written(tmp_path / "out"))
    assert progress.rows == len(done) == len(set(done))
    assert 40 <= len(done) < 160
    stats = queue.stats()
    assert stats.ready + stats.in_flight == 160 - len(done)
    assert stats.in_flight <= 40  # messages claimed for the next batch are kept for the next run
    make().run(once=True)
    assert ids(written(tmp_path / "out")) == good


def test_every_batch_has_a_line_and_the_current_batch_counts_as_lag(
    make: Make, queue: Queue, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackq.spark.pipeline.status.COUNT_INTERVAL", 0.0)
    push(queue, 0, 60)
    pipeline = make()
    behind = set()
    states: list[tuple[str, bool]] = []
    check, started = Plan.check, False
    with display(pipeline.config, as_json=False) as show:

        def watch(progress: Progress) -> None:
            show(progress)
            states.append((progress.state, started))
            if not progress.batches:
                behind.add(progress.lag)

        def start(plan: Plan, session: SparkSession) -> None:
            nonlocal started
            started = True
            check(plan, session)

        monkeypatch.setattr(Plan, "check", start)
        pipeline.run(once=True, on_progress=watch)
    assert states[0] == ("starting", False)  # shown before Spark is used, which takes seconds
    lines = capsys.readouterr().out.splitlines()
    shown = [line.partition(": ")[2].split("  ")[:2] for line in lines]
    shown.remove(["waiting", "lag 60"])
    assert shown == [
        ["starting", "lag 60"],
        ["batch 0", "40 rows"],
        ["batch 1", "20 rows"],
        ["stopped", "2 batches"],
    ]
    assert behind == {60}
    assert [line.rpartition("  ")[2] for line in lines[-2:]] == ["lag 0", "lag 0"]


@pytest.mark.campaign
def test_a_pipeline_that_is_fenced_off_says_so_and_loses_nothing(
    make: Make, queue: Queue, plain_client: redis.Redis, tmp_path: Path
) -> None:
    good = push(queue, 0, 20)

    def take_over(progress: Progress) -> None:
        if progress.batches and len(good) == 20:
            claims.begin()
            good.extend(push(queue, 20, 40))

    with (
        Claims(plain_client, queue.name, queue.name) as claims,
        pytest.raises(PipelineFenced, match="another process took it over"),
    ):
        make().run(on_progress=take_over)
    make().run(once=True)
    assert ids(written(tmp_path / "out")) == good
    assert queue.stats().in_flight == queue.stats().ready == 0


def test_a_claim_that_proved_too_large_is_worked_in_parts_after_its_release(
    make: Make, queue: Queue, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = push(queue, 0, 40)

    def too_large(*_: Any) -> None:
        raise MemoryError("Java heap space")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline_sinks, "write", too_large)
        with pytest.raises(PipelineFailed, match="Java heap space"):
            make().run(once=True)
    # The way that docs/pipeline.md describes.
    with Claims.from_url(url, queue.name, queue.name) as claims:
        assert claims.release() == 40
    options = {"url": url, "maxMessagesPerTrigger": 15, "failOnDataLoss": False}
    progress = make(source={"queue": queue.name, "options": options}).run(once=True)
    assert ids(written(tmp_path / "out")) == good
    assert progress.rows == 40
    assert progress.batches == 4  # the planned batch is empty now
    assert queue.stats().in_flight == 0


def test_a_pipeline_runs_once_at_a_time_in_a_session(make: Make, queue: Queue) -> None:
    pipeline = make()
    refused = list[str]()

    def start_again(progress: Progress) -> None:
        for once in (False, True) if progress.state == "waiting" and not refused else ():
            with pytest.raises(ConfigurationError) as raised:
                make().run(once=once)
            refused.append(str(raised.value))
            pipeline.stop()

    assert pipeline.run(on_progress=start_again).state == "stopped"
    assert set(refused) == {
        f"the configuration: name: a query named {queue.name!r} already runs in this session: stop"
        " it first, or choose another name"
    }


@pytest.mark.campaign
def test_a_pipeline_that_is_stopping_leaves_its_successor_alone(
    make: Make, queue: Queue, plain_client: redis.Redis
) -> None:
    push(queue, 0, 2)
    pipeline = make(transform={"callable": _slowly}, every=60)

    def hand_over(progress: Progress) -> None:
        if progress.state == "working" and not pipeline.stops:
            successor.begin()
            pipeline.stop()

    with Claims(plain_client, queue.name, queue.name) as successor:
        with pytest.raises(PipelineFenced):
            pipeline.run(on_progress=hand_over)
        # Its epoch holds still, and so does the batch that it was offered.
        (claim,) = successor.open()
        assert successor.ack(claim.batch) == claim.rows == 2


@pytest.mark.campaign
def test_a_second_stop_ends_the_batch_and_the_next_run_does_it_again(
    make: Make, queue: Queue, tmp_path: Path
) -> None:
    good = push(queue, 0, 20)
    pipeline = make(transform={"callable": _slowly})

    def watch(progress: Progress) -> None:
        if progress.state in ("working", "stopping"):
            pipeline.stop()

    assert pipeline.run(on_progress=watch).rows == 0
    assert pipeline.stops > 1
    assert written(tmp_path / "out") == []
    make().run(once=True)
    assert ids(written(tmp_path / "out")) == good


def _slowly(messages: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return messages.withColumn("slow", F.expr("reflect('java.lang.Thread', 'sleep', 3000L)"))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema": {"ddl": "a STRNG"}}, r"\[schema\] ddl: .*STRNG"),
        ({"schema": {"ddl": "n INT, N INT"}}, r"\[schema\] ddl: n and N are the same name"),
        ({"schema": {"ddl": "a INT, _Body BINARY"}}, r"\[schema\] ddl: _body is reserved"),
        ({"schema": {"ddl": "a MAP<INT, INT>"}}, r"\[schema\] ddl: column 'a': a map must have"),
        ({"schema": {"ddl": "a INT NOT NULL"}}, r"\[schema\] ddl: column 'a' must be nullable"),
        ({"schema": {"ddl": "a VARIANT"}}, r"\[schema\] ddl: column 'a': variant cannot be read"),
        ({"schema": {"ddl": "a INT", "not_null": ["b"]}}, r"\[schema\] not_null: .*`b`"),
        ({"checks": {"count": "count(*) > 1"}}, r"\[checks\] count: .*contains invalid"),
        ({"checks": {"ratio": "size >"}}, r"\[checks\] ratio: .*[Ss]yntax error"),
        ({"checks": {"ratio": "size + 5"}}, r"\[checks\] ratio: .*not a boolean"),
        ({"checks": {"luck": "rand() < 0.5"}}, r"\[checks\] luck: depends on chance"),
        ({"transform": {"sql": "SELECT nope FROM messages"}}, r"\[transform\] sql: .*`nope`"),
        ({"transform": {"sql": "DROP TABLE t"}}, r"\[transform\] sql: .*[Ss]yntax error.*DROP"),
        ({"transform": {"sql": "SELECT 1; SELECT 2"}}, r"\[transform\] sql: .*[Ss]yntax error"),
        (
            {"sink": {"queue": "o", "options": {"idColumn": "nope"}}},
            r"\[sink\] options: option 'idColumn' names the column 'nope', which does not exist",
        ),
        ({"sink": {"queue_column": "nope"}}, r"\[sink\] options: .*'nope', which does not exist"),
        ({"sink": {"path": "/nowhere", "format": "avro"}}, r"\[sink\] format: .*its package"),
        ({"checkpoint": "s3a://b/c"}, r"checkpoint: Spark cannot use s3a://b/c: .*add the package"),
        ({"sink": {"path": "nope://b"}}, r"\[sink\] path: .* No FileSystem for scheme \"nope\""),
        (
            {"sink": {"format": "jdbc", "options": {"url": "jdbc:none:db", "dbtable": "t"}}},
            r"\[sink\] options: .*No suitable driver.*spark.jars.packages",
        ),
        ({"sink": {"format": "dleta"}}, r"\[sink\] format: Spark does not find the format 'dleta'"),
        (
            {"sink": {"path": "/nowhere", "partition_by": ["knid"]}},
            r"\[sink\] partition_by: the rows to write have no column 'knid'; did you mean kind\?",
        ),
    ],
)
def test_an_error_of_spark_names_the_key_in_one_line(
    make: Make, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(PipelineConfigError, match=f"the configuration: {says}") as raised:
        make(**{"checks": {}, **changes}).check()
    assert "\n" not in str(raised.value)


def test_a_checkpoint_that_cannot_be_made_and_settings_that_spark_refuses_are_named(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for path, problem in (("file", "File exists"), ("file/c", "Not a directory")):
        folder = tmp_path / path
        with pytest.raises(PipelineConfigError) as raised:
            make(checkpoint=str(folder)).run(once=True)
        says = f"the configuration: checkpoint: cannot be made: {problem}: {folder}"
        assert (str(raised.value), raised.value.key) == (says, "checkpoint")

    def refuse(*_: Any, **__: Any) -> None:
        raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java ended.\nand more")

    monkeypatch.setattr(run, "quiet_session", refuse)
    with pytest.raises(PipelineConfigError) as raised:
        make().check()
    assert str(raised.value) == (
        "the configuration: [spark]: Spark does not start with these settings: PySparkRuntimeError:"
        " [JAVA_GATEWAY_EXITED] Java ended."
    )


@pytest.mark.campaign
def test_a_check_that_cannot_be_evaluated_has_failed_and_blocks_nothing(
    make: Make, queue: Queue, tmp_path: Path
) -> None:
    queue.push_many([{"id": "m-1", "kind": "7"}, {"id": "m-2", "kind": "seven"}])
    make(
        checks={"number": "CAST(kind AS INT) > 1", "ratio": "1 / (CAST(kind AS INT) - 7) IS NULL"}
    ).run(once=True)
    assert ids(written(tmp_path / "out")) == ["m-1"]
    assert reasons(queue) == {"check: number": 1}


@pytest.mark.parametrize("path", ["os:nope", "os:name", "nowhere:f"])
def test_a_missing_function_is_reported_before_spark_is_started(path: str) -> None:
    config = {"name": "p", "checkpoint": "/c", "source": {"queue": "q"}, "sink": {"path": "/o"}}
    with pytest.raises(PipelineConfigError, match=r"\[transform\] callable: "):
        Pipeline({**config, "transform": {"callable": path}})
