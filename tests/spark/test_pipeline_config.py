"""The configuration of a pipeline, and the errors for an invalid one."""

import copy
import json
import re
import socket
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ackq.errors import ConfigurationError, PipelineConfigError
from ackq.spark.pipeline import Pipeline, spark_settings
from ackq.spark.pipeline.config import PipelineConfig, RejectPolicy, Table
from ackq.spark.pipeline.spark_settings import check_places
from tests.spark.formats.descriptors import descriptor_set, file, message

FILE = """
checkpoint = "state/ratings"

[source]
queue = "movies"
options = { maxMessagesPerTrigger = 50_000, failOnDataLoss = false }

[schema]
ddl = "title STRING, rating DOUBLE"
not_null = ["title"]

[checks]
rating = "rating BETWEEN 0 AND 10"

[transform]
sql = "SELECT * FROM messages"

[sink]
path = "out"
partition_by = ["rating"]
options = { compression = "zstd" }
"""
VALUES: dict[str, Any] = {
    "name": "p",
    "checkpoint": "/c",
    "source": {"queue": "movies"},
    "sink": {"path": "out"},
}


def changed(place: str, value: Any) -> dict[str, Any]:
    """Return `VALUES` with one key set, or without it if the value is None."""
    values = copy.deepcopy(VALUES)
    *sections, key = place.split(".")
    inner = values
    for section in sections:
        inner = inner.setdefault(section, {})
    if value is None:
        inner.pop(key)
    else:
        inner[key] = value
    return values


def refused(values: Any) -> str:
    with pytest.raises(PipelineConfigError) as raised:
        PipelineConfig.of(values, where="p.toml")
    return str(raised.value)


def test_the_format_of_bodies_is_passed_to_the_source(tmp_path: Path) -> None:
    (tmp_path / "car.desc").write_bytes(descriptor_set(file(message("Car", "string title"))))
    source = 'queue = "movies"\nformat = "protobuf"\nschema_file = "car.desc"\n'
    source += 'message_type = "Car"\nenvelope = "cloudevents"\n'
    text = FILE.replace('queue = "movies"\n', source).replace("{ max", '{ timeZone = "CET", max')
    (tmp_path / "ratings.toml").write_text(text)
    options = PipelineConfig.read(tmp_path / "ratings.toml").source.all_options()
    assert options["schemaFile"] == str(tmp_path / "car.desc")
    assert (options["format"], options["envelope"]) == ("protobuf", "cloudevents")
    assert (options["messageType"], options["timeZone"]) == ("Car", "CET")
    assert "[schema] ddl: is required" in refused(changed("source.format", "csv"))


def test_the_configurations_on_the_page_of_formats_are_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    schema = {"type": "record", "name": "Car", "fields": [{"name": "name", "type": "string"}]}
    (tmp_path / "car.avsc").write_text(json.dumps(schema))
    examples = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for example in examples:
        values = tomllib.loads(example)
        PipelineConfig.of(values, base=tmp_path, name="page")
    assert len(examples) == 3


def test_a_file_is_read_and_its_paths_begin_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "ratings.toml").write_text(FILE)
    config = PipelineConfig.read(tmp_path / "ratings.toml")
    assert config.name == "ratings"
    assert config.checkpoint == str(tmp_path / "state/ratings")
    assert config.source.all_options() == {
        "queue": "movies",
        "groupId": "ratings",
        "maxMessagesPerTrigger": "50000",
        "failOnDataLoss": "false",
        "includeMetadata": "true",
    }
    assert config.validation.ddl == "title STRING, rating DOUBLE"
    assert config.validation.not_null == ("title",)
    assert config.validation.checks == {"rating": "rating BETWEEN 0 AND 10"}
    assert config.transform.sql == "SELECT * FROM messages"
    assert (config.sinks[0].kind, config.sinks[0].format) == ("files", "parquet")
    assert config.sinks[0].path == str(tmp_path / "out")
    assert config.sinks[0].partition_by == ("rating",)
    assert config.sinks[0].options == {"compression": "zstd"}
    assert config.rejects == RejectPolicy()


def test_only_files_wait_for_a_batch_to_be_worth_it() -> None:
    assert PipelineConfig.of(VALUES).every == 10
    assert PipelineConfig.of(changed("every", 0)).every == 0
    assert PipelineConfig.of({**VALUES, "sink": {"queue": "out"}}).every == 0


def test_the_url_of_a_path_stays_as_it_is() -> None:
    config = PipelineConfig.of(changed("checkpoint", "s3a://bucket/state"))
    assert config.checkpoint == "s3a://bucket/state"


def test_a_home_and_variables_in_a_path_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    for path in ("~/state", "$HOME/state", "${HOME}/state"):
        assert PipelineConfig.of(changed("checkpoint", path)).checkpoint == "/home/ann/state"
    assert PipelineConfig.of(changed("checkpoint", "a~b$")).checkpoint == f"{Path.cwd()}/a~b$"


def test_settings_of_spark_may_be_written_with_or_without_quotes() -> None:
    quoted = changed("spark", {"spark.ui.enabled": True, "spark.sql.shuffle.partitions": 4})
    plain = changed("spark", {"spark": {"ui": {"enabled": True}, "sql.shuffle.partitions": 4}})
    assert (
        PipelineConfig.of(quoted).spark
        == PipelineConfig.of(plain).spark
        == {
            "spark.ui.enabled": "true",
            "spark.sql.shuffle.partitions": "4",
        }
    )


def test_a_transform_may_be_the_function_itself() -> None:
    config = PipelineConfig.of(changed("transform.callable", len))
    assert config.transform.callable is len


@pytest.mark.parametrize(
    ("sink", "kind", "names"),
    [
        ({"queue": "out"}, "ackq", ("queue", "out")),
        ({"topic": "out"}, "ackq", ("topic", "out")),
        ({"delay_queue": "out"}, "ackq", ("delayQueue", "out")),
        ({"format": "ORC", "path": "/out"}, "files", None),
        ({"format": "delta", "path": "/out"}, "other", None),
        ({"format": "noop"}, "other", None),
    ],
)
def test_sinks(sink: dict[str, str], kind: str, names: Any) -> None:
    config = PipelineConfig.of({**VALUES, "sink": sink})
    assert (config.sinks[0].kind, config.sinks[0].target) == (kind, names)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("name", None, "p.toml: name: is required"),
        ("checkpoint", None, "p.toml: checkpoint: is required"),
        ("checkpoint", " ", "checkpoint: must be a non-empty string, not ' '"),
        ("checkpoint", "$NOWHERE/c", "checkpoint: $NOWHERE is not set: set it, or write the path"),
        ("sink.path", "/c", "[sink] path: is in the folder of the checkpoint"),
        ("sink.path", "file:///c/../c/rows", "path: is in the folder of the checkpoint"),
        ("checkpiont", "/c", "checkpiont: unknown key; did you mean checkpoint?"),
        ("source", None, "source: is required: add a section [source]"),
        ("source", "movies", "source must be a section: write [source]"),
        ("source.queue", None, "[source] queue or queues or topic or delay_queue: is required"),
        ("source.topic", "t", "[source] topic: cannot be combined with queue"),
        ("source.queue", "aBACKUP", "[source] queue: queue name 'aBACKUP' ends in BACKUP"),
        ("source.queue", 5, "[source] queue: must be a non-empty string, not 5"),
        ("source.grup", "g", "[source] grup: unknown key; did you mean group?"),
        ("source.group", "a b", "[source] group: group 'a b' is not 1 to 200"),
        ("name", "my cars", "[source] group: group 'my cars' is not 1 to 200"),
        (
            "source.options.groupId",
            "g",
            "[source.options] groupId: cannot be set here; use the key group of [source]",
        ),
        ("source.options.maxMesagesPerTrigger", 5, "did you mean 'maxMessagesPerTrigger'?"),
        ("source.options.maxMessagesPerTrigger", 0, "'maxMessagesPerTrigger' must be an integer"),
        ("source.options.url", "redis://:canary@host", "option 'url' contains a password"),
        ("source.options.claimTimeoutMs", [1], "must be a string, a number, true or false"),
        ("schema.columns", "a INT", "[schema] columns: unknown key; known are ddl"),
        ("schema.not_null", "a", '[schema] not_null: must be a list of strings, such as ["a"]'),
        ("schema.not_null", ["a", 5], "but contains 5"),
        ("checks.age", True, "[checks] age: must be a non-empty string, not True"),
        ("transform.callable", "module", "callable: must be module:function, not 'module'"),
        ("sink.path", None, "queue_column or topic_column or format or path: is required"),
        ("sink.queue", "out", "[sink] path: cannot be combined with queue"),
        ("sink.format", "ackq", "use one of the keys queue, topic and delay_queue instead"),
        ("sink.partion_by", ["a"], "[sink] partion_by: unknown key; did you mean partition_by?"),
        ("sink.options.path", "x", "[sink.options] path: cannot be set here"),
        ("sink", {"queue": "movies"}, "[sink] queue: is also the source"),
        ("sink", {"queue": "o", "options": {"idColum": "a"}}, "did you mean 'idColumn'?"),
        ("rejects.queue", "a*", "[rejects] queue: queue name 'a*' contains '*'"),
        ("trigger", "daily", "trigger: must be 'once', or an interval such as 'every 30 s'"),
        ("trigger", "continuous 5s", "Spark's continuous mode reads no source written in Python"),
        ("trigger", "every 25 h", "trigger: must be at most a day"),
        ("sinks", {"a": {"queue": "x"}}, "sinks: cannot be combined with sink"),
        ("tables.rows", {"path": "x"}, "[tables] rows: cannot be a table"),
        ("tables.cities", {"format": "csv"}, "[tables.cities] path: is required"),
        ("tables.cities", {"path": "x", "dll": "a INT"}, "[tables.cities] dll: unknown key"),
        ("rejects.stop_above", 5, "[rejects] stop_above: must be a share between 0 and 1"),
        ("every", -1, "every: must be 0 to 86,400 seconds, not -1"),
        ("every", "10 s", "every: must be a number of seconds, not '10 s'"),
        ("every", float("nan"), "every: must be 0 to 86,400 seconds, not nan"),
        ("spark", {"master": "local[2]"}, '[spark] master: is no setting of Spark: write "spark.'),
        ("spark", {"spark.master": "locl[2]"}, "'locl[2]' is no master; did you mean local[2]?"),
        ("spark", {"spark.master": "local[two]"}, "[spark] spark.master: 'local[two]' is no"),
        ("spark", {"spark.driver.memory": "2 GB"}, "spark.driver.memory: must be a number with"),
        ("spark", {"spark.executor.memory": "lots"}, "such as '2g', not 'lots'"),
        ("spark", {"spark.driver.memory": 2048}, "such as '2g', not '2048'"),
        ("sink.checkpoint", "/c", "checkpoint: unknown key; write it before the first section"),
        ("source.name", "p", "[source] name: unknown key; write it before the first section"),
        ("sink.watermark", {"column": "t"}, "[sink] watermark: unknown key; name the sink, as in"),
        ("sink.sql", "SELECT 1", "[sink] sql: unknown key; name the sink, as in [sinks.all]"),
        ("source.options.MaxMesages", 5, "unknown option 'MaxMesages' for a source"),
        ("spark.ui", {"ports": [1]}, "[spark] ui.ports: must be a string, a number, true or false"),
    ],
)
def test_errors_name_the_file_the_section_and_the_key(place: str, value: Any, says: str) -> None:
    text = refused(changed(place, value))
    assert text.startswith("p.toml: ")
    assert says in text
    assert "canary" not in text


def test_a_misspelt_key_is_named_before_the_one_that_is_missing() -> None:
    assert refused({**VALUES, "source": {"queu": "a"}}) == (
        "p.toml: [source] queu: unknown key; did you mean queue?"
    )


def test_a_file_sink_needs_its_folder() -> None:
    assert "[sink] path: is required: the folder for the orc files" in refused(
        {**VALUES, "sink": {"format": "orc"}}
    )


def test_sql_and_a_callable_at_once_are_refused() -> None:
    both = {"sql": "SELECT 1", "callable": "a:b"}
    assert "[transform] callable: cannot be combined with sql" in refused(
        {**VALUES, "transform": both}
    )


@pytest.mark.parametrize("key", ["topic", "delay_queue"])
def test_a_topic_and_a_delay_queue_need_a_queue_for_their_rejects(key: str) -> None:
    values = {**VALUES, "source": {key: "t"}}
    says = f"[rejects] queue: is required: a {key.replace('_', ' ')} has no dead letters of rows"
    assert says in refused(values)
    assert PipelineConfig.of({**values, "rejects": {"queue": "bad"}}).rejects.queue == "bad"


def test_a_delay_queue_is_a_source_with_claims() -> None:
    source = {"delay_queue": "later", "options": {"partitions": 3}}
    values = {**VALUES, "source": source, "rejects": {"queue": "bad"}}
    assert PipelineConfig.of(values).source.all_options() == {
        "delayQueue": "later",
        "partitions": "3",
        "groupId": "p",
        "includeMetadata": "true",
    }
    says = "[sink] delay_queue: is also the source"
    assert says in refused({**values, "sink": {"delay_queue": "later"}})
    PipelineConfig.of({**values, "sink": {"queue": "later"}})


def test_the_error_has_the_key() -> None:
    with pytest.raises(PipelineConfigError) as raised:
        PipelineConfig.of(changed("sink.partion_by", ["a"]))
    assert raised.value.key == "sink.partion_by"


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineConfigError, match=r"absent\.toml: cannot be read: No such file"):
        PipelineConfig.read(tmp_path / "absent.toml")
    for number, raw in enumerate((b"name = ", b"\xff")):
        (tmp_path / f"{number}.toml").write_bytes(raw)
        with pytest.raises(PipelineConfigError, match=rf"{number}\.toml: is not TOML"):
            PipelineConfig.read(tmp_path / f"{number}.toml")


def test_a_session_of_spark_connect_is_refused_at_once() -> None:
    # Only the class's module matters; Connect itself needs packages that ackq does not.
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConfigurationError, match="Spark Connect session: leave spark= out"):
        Pipeline(VALUES, spark=remote)


def test_a_trigger_is_an_interval_or_once() -> None:
    values = {key: value for key, value in VALUES.items() if key != "every"}
    triggers = {"once": (10, True), "every 1 min": (60, False), "every 500ms": (0.5, False)}
    for trigger, (every, once) in triggers.items():
        config = PipelineConfig.of({**values, "trigger": trigger})
        assert (config.every, config.once) == (every, once)


def test_several_sinks_and_tables_have_names() -> None:
    values = {key: value for key, value in VALUES.items() if key != "sink"}
    sinks = {"all": {"path": "/all"}, "big": {"queue": "big", "sql": "SELECT * FROM rows"}}
    tables = {"cities": {"path": "/c", "format": "csv", "options": {"header": True}}}
    config = PipelineConfig.of({**values, "sinks": sinks, "tables": tables})
    assert [(sink.name, sink.kind, sink.sql) for sink in config.sinks] == [
        ("all", "files", None),
        ("big", "ackq", "SELECT * FROM rows"),
    ]
    assert config.tables == (Table("cities", "/c", "csv", None, {"header": "true"}),)
    for wrong, says in (
        ({}, "sinks: is empty"),
        ({"a b": {"path": "/x"}}, "[sinks] a b: is no name for a sink"),
        ({"a": {"path": "/x"}, "b": {"path": "/x"}}, "[sinks.a] path: is also that of another"),
        ({"a": {"queue": "movies"}}, "[sinks.a] queue: is also the source"),
        ({"a": {"path": "/x", "slq": ""}}, "[sinks.a] slq: unknown key; did you mean sql?"),
    ):
        assert says in refused({**values, "sinks": wrong})


def test_a_sink_that_a_pattern_of_the_source_matches_is_refused() -> None:
    values = {**VALUES, "source": {"queues": ["orders-*"]}}
    assert PipelineConfig.of(values).source.all_options()["queues"] == "orders-*"
    says = "[sink] queue: is also the source"
    assert says in refused({**values, "sink": {"queue": "orders-done"}})
    assert PipelineConfig.of({**values, "sink": {"topic": "orders-done"}})


@pytest.mark.parametrize(
    ("master", "says"),
    [
        ("spark://nowhere.invalid:7077", "no master answers at spark://nowhere.invalid:7077: "),
        ("spark://127.0.0.1:1,[::1]:1", "no master answers at spark://127.0.0.1:1,[::1]:1: "),
        ("spark://127.0.0.1", "'spark://127.0.0.1' is no master; write spark://HOST:7077"),
        ("spark://a:70770", "'spark://a:70770' is no master; write spark://HOST:7077"),
    ],
)
def test_a_master_that_does_not_answer_is_named_before_spark_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, master: str, says: str
) -> None:
    monkeypatch.setattr(spark_settings, "PATIENCE", 0)
    pipeline = Pipeline({**VALUES, "spark": {"spark.master": master}})
    with pytest.raises(PipelineConfigError) as raised:
        pipeline.check()
    assert f"[spark] spark.master: {says}" in str(raised.value)
    assert raised.value.key == "spark.spark.master"


def test_one_of_several_masters_is_enough_and_it_may_come_up_late() -> None:
    with socket.socket() as master:
        master.bind(("127.0.0.1", 0))
        threading.Timer(0.3, master.listen).start()
        port = master.getsockname()[1]
        check_places("p.toml", {"spark.master": f"spark://127.0.0.1:1,127.0.0.1:{port}"})


def test_a_folder_in_which_spark_cannot_write_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    wrong, right = f"{tmp_path}/file/a", f"{tmp_path}/new/b"
    with pytest.raises(PipelineConfigError) as raised:
        Pipeline({**VALUES, "spark": {"spark.local.dir": f"{wrong},{wrong}2"}}).check()
    assert str(raised.value) == (
        f"the configuration: [spark] spark.local.dir: Spark cannot write to {wrong},{wrong}2: Not a"
        " directory. Name a folder that exists and is writable"
    )
    check_places("p.toml", {"spark.local.dir": f"{wrong},{right}"})
    assert list((tmp_path / "new" / "b").iterdir()) == []
    monkeypatch.setenv("SPARK_LOCAL_DIRS", right)
    check_places("p.toml", {"spark.local.dir": wrong})
