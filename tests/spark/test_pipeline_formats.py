"""Pipelines over bodies that are no plain JSON: rows in the sink, dead letters as they were."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.errors import PipelineConfigError, PipelineFailed
from ackq.spark.pipeline import Pipeline
from ackq.spark.pipeline.plan import Plan
from tests.spark.formats.descriptors import descriptor_set, file, message
from tests.spark.formats.registry_server import registry
from tests.spark.formats.test_bodies import EVENT, as_avro
from tests.spark.formats.test_registry import LATER_CAR, framed
from tests.spark.test_pipeline import written

DDL = "name STRING, n INT"
Make = Callable[..., Pipeline]


@pytest.fixture
def make(spark: SparkSession, url: str, name: str, tmp_path: Path) -> Make:
    """``make(format=..., ...)``: a pipeline from the test's queue to Parquet."""

    def make(ddl: str | None = DDL, **source: Any) -> Pipeline:
        options = {"url": url, **source.pop("options", {})}
        config: dict[str, Any] = {
            "name": name,
            "checkpoint": str(tmp_path / "checkpoint"),
            "source": {"queue": name, "options": options, **source},
            "schema": {"not_null": ["name"], **({} if ddl is None else {"ddl": ddl})},
            "checks": {"n": "n > 0"},
            "sink": {"path": str(tmp_path / "out")},
        }
        return Pipeline(config, spark=spark)

    return make


def car(name: str, n: int) -> bytes:
    """Return a message of Protobuf."""
    return b"\x0a" + bytes([len(name)]) + name.encode() + b"\x10" + bytes([n])


def event(name: str | None, n: int) -> bytes:
    return json.dumps({**EVENT, "data": {"name": name, "n": n}}).encode()


NOT_AVRO, NOT_PROTOBUF = "not Avro of its schema", "not Protobuf of its schema"
#: The source; bodies of the rows (a, 1) and (b, 2); rejected bodies with their reasons.
FORMATS: dict[str, tuple[dict[str, str], list[bytes], dict[bytes, str]]] = {
    "avro": (
        {"format": "avro", "schema_file": "car.avsc"},
        [as_avro({"name": name, "n": n}, LATER_CAR) for name, n in (("a", 1), ("b", 2))],
        {
            b"": f"does not parse: {NOT_AVRO}",
            b"\x00\xff\n\x00": f"does not parse: {NOT_AVRO}",
            as_avro({"name": "c", "n": 0}, LATER_CAR): "check: n",
        },
    ),
    "protobuf": (
        {"format": "protobuf", "schema_file": "car.desc"},
        [car("a", 1), car("b", 2)],
        {b"\xff\x00\n": f"does not parse: {NOT_PROTOBUF}", car("c", 0): "check: n"},
    ),
    "csv": (
        {"format": "csv"},
        [b"a,1", b'"b",2\r\n'],
        {
            b"c,many": "does not parse: n is not INT",
            b"\xff,\x00": "does not parse: not UTF-8",
            b",1": "null: name",
            b"c,0": "check: n",
        },
    ),
    "cloudevents": (
        {"envelope": "cloudevents"},
        [event("a", 1), event("b", 2)],
        {
            b"{}": "does not parse: not a CloudEvent: no specversion",
            b"\xff": "does not parse: not a JSON object",
            event(None, 1): "null: name",
            event("c", 0): "check: n",
        },
    ),
}


@pytest.mark.parametrize("format", FORMATS)
def test_each_message_is_a_row_or_a_dead_letter_as_it_was(
    make: Make, queue: Queue, tmp_path: Path, format: str
) -> None:
    source, good, bad = FORMATS[format]
    if schema := source.get("schema_file"):
        (tmp_path / "car.avsc").write_text(json.dumps(LATER_CAR))
        (tmp_path / "car.desc").write_bytes(
            descriptor_set(file(message("Car", "string name", "int32 n")))
        )
        source = {**source, "schema_file": str(tmp_path / schema)}
    queue.push_many([*good, *bad])
    is_event = format == "cloudevents"
    ddl = f"{DDL}, ce_type STRING, ce_extensions MAP<STRING, STRING>" if is_event else DDL
    progress = make(ddl, **source).run(once=True)
    rows = sorted(written(tmp_path / "out"), key=lambda row: row["name"])
    assert [(row["name"], row["n"]) for row in rows] == [("a", 1), ("b", 2)]
    if is_event:
        assert {row["ce_type"] for row in rows} == {"car.sold"}
        assert dict(rows[0]["ce_extensions"])["retries"] == "3"
    assert (progress.written, progress.rejected) == (2, len(bad))
    assert {letter.body: letter.reason for letter in queue.dead_letters(100)} == bad
    stats = queue.stats()
    assert (stats.ready, stats.in_flight, stats.dead) == (0, 0, len(bad))


def test_text_is_one_column(spark: SparkSession, url: str, queue: Queue) -> None:
    queue.push_many([b"a,1", b"\xff"])
    reader = spark.read.format("ackq").options(url=url, queue=queue.name, format="text")
    rows = reader.schema("line STRING, _corrupt_record STRING").load().collect()
    assert {row.line for row in rows} == {"a,1", None}


def test_a_message_that_is_rejected_only_at_first_is_not_lost(
    make: Make, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registry() as server:
        server.add(1, json.dumps(LATER_CAR))
        queue.push_many([framed(n, as_avro({"name": "a", "n": 1}, LATER_CAR)) for n in (1, 2)])
        pipeline = make(format="avro", schema_registry=server.url)
        with monkeypatch.context() as patched:
            # As if the schema had been registered between the sink and the dead letters.
            rejected = Plan.rejected
            patched.setattr(Plan, "rejected", lambda *given: rejected(*given).limit(0))
            with pytest.raises(PipelineFailed, match="1 messages were rejected, but only 0 when"):
                pipeline.run(once=True)
        assert (queue.stats().in_flight, queue.stats().dead) == (2, 0)
        assert pipeline.run(once=True).rejected == 1
    assert [row["name"] for row in written(tmp_path / "out")] == ["a"]
    (letter,) = queue.dead_letters(10)
    assert letter.reason == "does not parse: its schema is not in the registry"
    assert queue.stats().in_flight == 0


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": "avro"}, r"\[source\] options: .* needs either 'schemaFile' or"),
        ({"format": "text"}, r"\[schema\] ddl: format 'text' has one column"),
        ({"format": "csv", "ddl": "a ARRAY<INT>"}, r"\[schema\] ddl: column 'a': CSV has no arr"),
        ({"format": "csv", "ddl": None}, r"\[schema\] ddl: is required: the columns to read"),
        ({"options": {"format": "csv"}}, "cannot be set here; use the key format of"),
    ],
)
def test_a_wrong_format_is_refused_by_its_key(
    make: Make, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(PipelineConfigError, match=complaint):
        make(**changes).check()
