"""`ackq pipeline infer`: the schema that fits a sample."""

import io
import json
import tomllib
from pathlib import Path

import click.testing
import fastavro
import pytest
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

from ackq import Queue
from ackq.cli import main
from ackq.spark.pipeline.infer import infer
from tests.spark.formats.descriptors import TIMESTAMP, descriptor_set, file, map_of, message
from tests.spark.formats.registry_server import registry
from tests.spark.formats.test_bodies import as_avro
from tests.spark.formats.test_registry import LATER_CAR, as_text, framed


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, -5, None], "BIGINT"),
        ([1, 2.5], "DOUBLE"),
        ([2**63], "STRING"),
        ([2**53, 2**53 + 1, 2**63 - 1], "BIGINT"),
        ([2**53, 2.5], "DOUBLE"),
        ([2**53 + 1, 2.5], "STRING"),
        ([2.5, 1, -(2**53) - 1], "STRING"),
        (["2024-12-01-15", "2024-12-02-07"], "STRING"),
        (["2026-W05-1"], "STRING"),
        (["2026-01-05+02:00"], "STRING"),
        (["2024-12-01 15"], "STRING"),
        ([True, None], "BOOLEAN"),
        ([None], "STRING"),
        (["2024-01-05", "2024-02-01"], "DATE"),
        (["2024-01-05", "2024-02-01T10:00:00Z"], "TIMESTAMP"),
        (["2024-01-05", "2024-02-31"], "STRING"),
        (["2024", "tea"], "STRING"),
        ([1, "one"], "STRING"),
        ([{}, None], "STRING"),
        ([{"a": 1}, {"a": 2.5, "b c": True}], "STRUCT<a: DOUBLE, `b c`: BOOLEAN>"),
        ([{"a": 1}, [1]], "STRING"),
        ([[1], [], [None, 2.5]], "ARRAY<DOUBLE>"),
        ([[{"a": None}], [{"a": "x"}]], "ARRAY<STRUCT<a: STRING>>"),
    ],
)
def test_a_type_fits_all_values(values: list[object], kind: str) -> None:
    sample = infer(json.dumps({"x": value}).encode() for value in values)
    assert sample.ddl == f"x {kind}"
    assert sample.not_null == ([] if None in values else ["x"])


def test_columns_are_named_once_and_what_is_no_object_counts() -> None:
    bodies = [b'{"a": 1, "A": 2, "b`c": 3}', b"[1]", b"no", b'{"a": 1}']
    sample = infer(bodies)
    assert sample.ddl == "a BIGINT,\n`b``c` BIGINT"
    assert (sample.messages, sample.malformed, sample.not_null) == (4, 2, ["a"])


def test_the_command_prints_a_section_of_a_configuration(queue: Queue, url: str) -> None:
    queue.push_many({"id": f"m{n}", "n": n, "no name": [n]} for n in range(1200))
    queue.push(b"tea")
    result = click.testing.CliRunner().invoke(
        main, ["pipeline", "infer", queue.name, "--sample", "1100", "--url", url]
    )
    assert result.exit_code == 0, result.output
    assert "# From 1,100 messages, 0 of them" in result.output
    assert tomllib.loads(result.output) == {
        "schema": {
            "ddl": "id STRING,\nn BIGINT,\n`no name` ARRAY<BIGINT>\n",
            "not_null": ["id", "n", "no name"],
        }
    }
    queue.purge()
    empty = click.testing.CliRunner().invoke(main, ["pipeline", "infer", queue.name, "--url", url])
    assert empty.exit_code == 3
    assert "has no ready messages" in empty.output


def test_the_schema_of_avro_names_the_columns(queue: Queue, url: str, tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "string"}, {"name": "n", "type": ["null", "int"]}]
    schema = {"type": "record", "name": "Reading", "fields": fields}
    for n in (5, None):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, {}), {"id": "a", "n": n})
        queue.push(stream.getvalue())
    queue.push(b"tea")
    file = tmp_path / "reading.avsc"
    file.write_text(json.dumps(schema))
    command = ["pipeline", "infer", queue.name, "--url", url, "--format", "avro"]
    result = click.testing.CliRunner().invoke(main, [*command, "--schema-file", str(file)])
    assert result.exit_code == 0, result.output
    assert "# From 3 messages, 1 of them not avro of the schema." in result.output
    assert tomllib.loads(result.output)["schema"] == {
        "ddl": "id STRING,\nn BIGINT\n",
        "not_null": ["id"],
    }
    refused = click.testing.CliRunner().invoke(main, command)
    assert refused.exit_code == 3
    assert "format 'avro' needs either 'schemaFile' or 'schemaRegistry'" in refused.output


def test_the_schema_of_protobuf_and_that_of_a_registry_name_the_columns(
    queue: Queue, url: str, tmp_path: Path
) -> None:
    fields = ("string id", "int64 n", "double price", "optional bool ok", f"{TIMESTAMP} at")
    kind = message("Reading", *fields, "bytes raw", "repeated int32 some", "enum.Kind kind")
    map_of(kind, "counts", "string", "int32")
    files = file(kind, message("Other", "int32 x"))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(files)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("Reading"))
    values = {"id": "a", "n": 2**60, "price": 0.5, "at": {"seconds": 9}, "raw": b"x", "some": [1]}
    bodies = [made(**values, ok=True, kind=1, counts={"a": 1}).SerializeToString(), b"\xff"]
    expected = {
        "ddl": "id STRING,\nn BIGINT,\nprice DOUBLE,\nok BOOLEAN,\nat TIMESTAMP,\nraw STRING,\n"
        "some ARRAY<BIGINT>,\nkind STRING,\ncounts STRUCT<a: BIGINT>\n",
        "not_null": ["id", "n", "price", "ok", "at", "raw", "some", "kind", "counts"],
    }
    path = tmp_path / "readings.desc"
    path.write_bytes(descriptor_set(files))

    def inferred(*options: str) -> click.testing.Result:
        command = ["pipeline", "infer", queue.name, "--url", url, *options]
        return click.testing.CliRunner().invoke(main, command)

    def schema(*options: str) -> object:
        result = inferred(*options)
        assert result.exit_code == 0, result.output
        assert f", 1 of them not {options[1]} of the schema." in result.output
        queue.purge()
        return tomllib.loads(result.output)["schema"]

    for body in bodies:
        queue.push(body)
    protobuf = ("--format", "protobuf", "--schema-file", str(path))
    refused = inferred(*protobuf)
    assert refused.exit_code == 3
    assert "option 'messageType' is required, since the schema has Reading, Other" in refused.output
    assert schema(*protobuf, "--message-type", "Reading") == expected
    with registry() as server:
        server.add(1, as_text(files), schemaType="PROTOBUF")
        server.add(2, json.dumps(LATER_CAR))
        for number, body in ((1, b"\x00" + bodies[0]), (5, b"\x00")):
            queue.push(framed(number, body))
        assert schema("--format", "protobuf", "--schema-registry", server.url) == expected
        for number in (2, 5):
            queue.push(framed(number, as_avro({"name": "a", "n": 1}, LATER_CAR)))
        assert schema("--format", "avro", "--schema-registry", server.url) == {
            "ddl": "n BIGINT,\nname STRING\n",
            "not_null": ["n", "name"],
        }
    queue.push(framed(1, b""))
    unreachable = inferred("--format", "avro", "--schema-registry", server.url)
    assert unreachable.exit_code == 3
    assert f"schema registry {server.url}" in unreachable.output
