"""`ackq pipeline infer`: the schema that fits a sample."""

import io
import json
import tomllib
from pathlib import Path

import click.testing
import fastavro
import pytest

from ackq import Queue
from ackq.cli import main
from ackq.spark.pipeline.infer import infer


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, -5, None], "BIGINT"),
        ([1, 2.5], "DOUBLE"),
        ([2**63], "STRING"),
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
