"""From bodies of each format to rows, and why others are dead letters."""

import io
import json
import pickle
import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest
import redis
from google.protobuf import message_factory, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ackq import Queue
from ackq.delay import DelayEntry, DelayQueue
from ackq.errors import ConfigurationError
from ackq.spark.columns import columns_of
from ackq.spark.options import Reading
from ackq.spark.pipeline.rejects import Misfits
from ackq.spark.rows import Rows
from ackq.topic import Topic
from tests.spark.engine import Checkpoint, Engine
from tests.spark.formats.descriptors import TIMESTAMP, descriptor_set, file, map_of, message

TEXT, INT, LONG = StringType(), IntegerType(), LongType()
AVRO = {
    "type": "record",
    "name": "Car",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "n", "type": ["null", "int"]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "raw", "type": "bytes"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "long"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NONE", "CAR"]}},
    ],
}
CAR: dict[str, Any] = {
    "name": "é",
    "n": None,
    "price": Decimal("-1.50"),
    "at": datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=UTC),
    "day": date(2024, 2, 29),
    "key": UUID(int=7),
    "raw": b"\x00\xff",
    "tags": ["a", "b"],
    "sizes": {"s": 2**40},
    "kind": "CAR",
}
CAR_COLUMNS: dict[str, DataType] = {
    "name": TEXT,
    "n": INT,
    "price": DecimalType(9, 2),
    "at": TimestampType(),
    "day": DateType(),
    "key": TEXT,
    "raw": BinaryType(),
    "tags": ArrayType(TEXT),
    "sizes": MapType(TEXT, LONG),
    "kind": TEXT,
}
LINE_COLUMNS: dict[str, DataType] = {
    "name": TEXT,
    "n": INT,
    "x": DoubleType(),
    "ok": BooleanType(),
    "at": TimestampType(),
}
EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "e-1",
    "source": "/cars",
    "type": "car.sold",
    "time": "2024-02-29T12:30:00Z",
    "traceparent": "00-1",
    "retries": 3,
    "data": {"name": "a", "n": 1},
}
EVENT_COLUMNS: dict[str, DataType] = {
    "name": TEXT,
    "n": INT,
    "ce_id": TEXT,
    "ce_type": TEXT,
    "ce_subject": TEXT,
    "ce_time": TimestampType(),
    "ce_extensions": MapType(TEXT, TEXT),
}


class Reader:
    """Reads bodies with some options, as an executor does: with what is sent to it."""

    def __init__(self, columns: dict[str, DataType], **options: Any) -> None:
        given = {name.lower(): str(value) for name, value in options.items()}
        reading = pickle.loads(pickle.dumps(Reading.of({"queue": "q", **given})))
        schema = StructType([StructField(name, kind) for name, kind in columns.items()])
        wanted = columns_of(reading, StructType([*schema, StructField("_corrupt_record", TEXT)]))
        self._rows = Rows(wanted, reading.parsing)
        self._misfits = Misfits(wanted.parsed, reading.parsing)

    def read(self, *bodies: bytes) -> list[dict[str, Any]]:
        """Return the rows; of a body that does not fit, only the reasons."""
        rows = self._rows.batch(bodies, {}, "here").to_pylist(maps_as_pydicts="strict")
        found = []
        for row, body in zip(rows, bodies, strict=True):
            corrupt, reasons = row.pop("_corrupt_record"), self._misfits.of(body)
            assert (corrupt is None) == (not reasons)
            found.append({"reasons": reasons} if reasons else row)
        return found

    def reasons(self, body: bytes) -> list[str]:
        """Return why a body does not fit."""
        found: list[str] = self.read(body)[0]["reasons"]
        return found


@pytest.fixture
def avro(tmp_path: Path) -> Reader:
    (tmp_path / "car.avsc").write_text(json.dumps(AVRO))
    return Reader(CAR_COLUMNS, format="avro", schemaFile=tmp_path / "car.avsc")


def as_avro(record: Any, schema: Any = AVRO) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, {}), record)
    return stream.getvalue()


def test_avro_of_all_types(avro: Reader) -> None:
    (row,) = avro.read(as_avro(CAR))
    assert row == {**CAR, "key": str(CAR["key"])}


def test_values_of_avro_that_a_column_does_not_take(tmp_path: Path) -> None:
    (tmp_path / "car.avsc").write_text(json.dumps(AVRO))
    kinds: dict[str, DataType] = {
        **dict.fromkeys(CAR_COLUMNS, INT),
        "raw": TEXT,
        "at": TEXT,
        "price": TEXT,
    }
    reader = Reader(kinds, format="avro", schemaFile=tmp_path / "car.avsc")
    wrong = ("name", "day", "key", "tags", "sizes", "kind")
    assert reader.reasons(as_avro(CAR)) == [f"{name} is not INT" for name in wrong]


@pytest.mark.parametrize("body", [b"", b"{}", as_avro(CAR)[:-1], as_avro(CAR) + b"\x00"])
def test_bodies_that_are_no_avro(avro: Reader, body: bytes) -> None:
    assert avro.reasons(body) == ["not Avro of its schema"]


def test_whatever_the_bytes_a_body_is_a_row_or_a_misfit(avro: Reader) -> None:
    chance = random.Random(1)
    whole = as_avro(CAR)
    bodies = []
    for _ in range(3000):
        body = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        bodies.append(bytes(body[: chance.randint(0, 2 * len(body))]))
    rows = avro.read(*bodies)
    assert 100 < sum("reasons" in row for row in rows) < 3000


def test_avro_that_is_nested_deeply_does_not_end_the_process(tmp_path: Path) -> None:
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}],
    }
    (tmp_path / "node.avsc").write_text(json.dumps(node))
    reader = Reader({"next": TEXT}, format="avro", schemaFile=tmp_path / "node.avsc")
    assert reader.read(b"\x02" * 3 + b"\x00") == [{"next": '{"next":{"next":{"next":null}}}'}]
    assert reader.reasons(b"\x02" * 1_000_000 + b"\x00") == ["not Avro of its schema"]


def test_text_is_utf8() -> None:
    reader = Reader({"line": TEXT}, format="text")
    assert reader.read("é\n".encode(), b"") == [{"line": "é\n"}, {"line": ""}]
    assert reader.reasons(b"\xff") == ["not UTF-8"]


def test_cells_of_csv() -> None:
    reader = Reader(LINE_COLUMNS, format="csv")
    at = datetime(2024, 2, 29, tzinfo=UTC)
    assert reader.read(b"a,-1,1.5,TRUE,2024-02-29", b'"a,\n""b",+7,1e3,,\r\n', b",,NaN,,")[:2] == [
        {"name": "a", "n": -1, "x": 1.5, "ok": True, "at": at},
        {"name": 'a,\n"b', "n": 7, "x": 1000.0, "ok": None, "at": None},
    ]
    semicolons = Reader({"a": TEXT, "b": TEXT}, format="csv", delimiter=";")
    assert semicolons.read(b"1,2;3") == [{"a": "1,2", "b": "3"}]


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        (b"", "wrong number of cells"),
        (b"a,1", "wrong number of cells"),
        (b"a,1,,,,", "wrong number of cells"),
        (b'"a,1,,,', "not a line of CSV"),
        (b'"a"b,1,,,', "not a line of CSV"),
        (b"a,1,,,\nb,2,,,", "not a line of CSV"),
        (b"\xff,1,,,", "not UTF-8"),
        (b"a,1_0,1_0,yes,", "n is not INT,x is not DOUBLE,ok is not BOOLEAN"),
        (b"a,,,,soon", "at is not TIMESTAMP"),
        (b"a,2147483648,,,", "n is not INT"),
        (b"a,%b,,," % (b"9" * 10_000), "n is not INT"),
        (b"%b,1,,," % (b"a" * 200_000), "not a line of CSV or too long a cell"),
    ],
)
def test_bodies_that_are_no_csv(body: bytes, reasons: str) -> None:
    assert Reader(LINE_COLUMNS, format="csv").reasons(body) == reasons.split(",")


@pytest.fixture
def protobuf(tmp_path: Path) -> tuple[Reader, Any]:
    """A reader, and the class of its messages."""
    part = message("Part", "string name")
    car = message(
        "Car",
        "string name",
        "optional int32 n",
        "int64 size",
        "bytes raw",
        f"{TIMESTAMP} at",
        ".Part part",
        "repeated .Part parts",
        "enum.Kind kind",
        "bool ok",
    )
    map_of(car, "sizes", "string", "int64")
    whole = file(part, car)
    (tmp_path / "car.desc").write_bytes(descriptor_set(whole))
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(whole)
    columns: dict[str, DataType] = {
        "name": TEXT,
        "n": INT,
        "size": LONG,
        "raw": BinaryType(),
        "at": TimestampType(),
        "part": StructType([StructField("name", TEXT)]),
        "parts": ArrayType(StructType([StructField("name", TEXT)])),
        "kind": TEXT,
        "ok": BooleanType(),
        "sizes": MapType(TEXT, LONG),
    }
    reader = Reader(columns, format="protobuf", schemaFile=tmp_path / "car.desc", messageType="Car")
    return reader, message_factory.GetMessageClass(pool.FindMessageTypeByName("Car"))


def test_protobuf_of_all_types(protobuf: tuple[Reader, Any]) -> None:
    reader, car = protobuf
    full = car(name="é", n=0, size=2**40, raw=b"\x00\xff", kind=1, ok=True, sizes={"s": 1})
    full.at.FromJsonString("2024-02-29T12:30:00.5Z")
    full.part.name = "p"
    full.parts.add(name="q")
    assert reader.read(full.SerializeToString()) == [
        {
            "name": "é",
            "n": 0,
            "size": 2**40,
            "raw": b"\x00\xff",
            "at": datetime(2024, 2, 29, 12, 30, 0, 500_000, tzinfo=UTC),
            "part": {"name": "p"},
            "parts": [{"name": "q"}],
            "kind": "CAR",
            "ok": True,
            "sizes": {"s": 1},
        }
    ]


def test_an_empty_body_is_a_message_with_all_defaults(protobuf: tuple[Reader, Any]) -> None:
    absent = {"n": None, "at": None, "part": None}
    defaults = {"name": "", "size": 0, "raw": b"", "parts": [], "kind": "NONE", "ok": False}
    assert protobuf[0].read(b"") == [{**defaults, **absent, "sizes": {}}]


def test_protobuf_that_does_not_fit(protobuf: tuple[Reader, Any]) -> None:
    reader, car = protobuf
    late = car()
    late.at.seconds = 2**60
    assert reader.reasons(b"\xff") == ["not Protobuf of its schema"]
    assert reader.reasons(b"\x0a\x01\xff") == ["not Protobuf of its schema"]  # no UTF-8
    assert reader.reasons(late.SerializeToString()) == ["not Protobuf of its schema"]
    chance = random.Random(2)
    rows = reader.read(*(chance.randbytes(chance.randint(1, 30)) for _ in range(3000)))
    assert sum("reasons" in row for row in rows) > 1000


def test_the_data_of_a_cloudevent_and_its_attributes() -> None:
    reader = Reader(EVENT_COLUMNS, envelope="cloudevents")
    attributes = {
        "ce_id": "e-1",
        "ce_type": "car.sold",
        "ce_subject": None,
        "ce_time": datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        "ce_extensions": {"traceparent": "00-1", "retries": "3"},
    }
    encoded = {**EVENT, "data": None, "data_base64": "eyJuIjoyfQ=="}
    bodies = [EVENT, encoded, {**EVENT, "data": None}]
    assert reader.read(*(json.dumps(each).encode() for each in bodies)) == [
        {"name": "a", "n": 1, **attributes},
        {"name": None, "n": 2, **attributes},
        {"name": None, "n": None, **attributes},
    ]
    exact = json.dumps(EVENT).replace('"a"', "1.10").encode()
    assert reader.read(exact)[0]["name"] == "1.10"


def test_cloudevents_with_data_of_other_formats(tmp_path: Path) -> None:
    (tmp_path / "car.avsc").write_text(json.dumps(AVRO))
    car = {**EVENT, "data": None, "data_base64": base64_of(as_avro(CAR))}
    options = {"envelope": "cloudevents", "format": "avro", "schemaFile": tmp_path / "car.avsc"}
    reader = Reader({"ce_id": TEXT, "name": TEXT}, **options)
    assert reader.read(json.dumps(car).encode()) == [{"ce_id": "e-1", "name": "é"}]
    assert reader.reasons(json.dumps(EVENT).encode()) == ["data is not avro"]
    line = {**EVENT, "data": "a,1"}
    csv = Reader({"name": TEXT, "ce_id": TEXT, "n": INT}, envelope="cloudevents", format="csv")
    assert csv.read(json.dumps(line).encode()) == [{"name": "a", "ce_id": "e-1", "n": 1}]
    assert csv.reasons(json.dumps(EVENT).encode()) == ["data is not csv"]


def base64_of(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type": None}, "not a CloudEvent: no type"),
        ({"id": ""}, "not a CloudEvent: no id"),
        ({"source": 5}, "not a CloudEvent: source is not text"),
        ({"subject": []}, "not a CloudEvent: subject is not text"),
        ({"specversion": "0.3"}, "not a CloudEvent of version 1.0"),
        ({"data_base64": "e30="}, "not a CloudEvent: data twice"),
        ({"data": None, "data_base64": "e30"}, "data_base64 is not base64"),
        ({"data": None, "data_base64": {}}, "data_base64 is not base64"),
        ({"data": None, "data_base64": "Wzw="}, "not a JSON object"),
        ({"data": [1]}, "data is not a JSON object"),
        ({"data": {"n": "x"}}, "n is not INT"),
        ({"time": "soon"}, "ce_time is not TIMESTAMP"),
    ],
)
def test_bodies_that_are_no_cloudevents(changes: dict[str, Any], reason: str) -> None:
    reader = Reader(EVENT_COLUMNS, envelope="cloudevents")
    assert reader.reasons(json.dumps({**EVENT, **changes}).encode()) == [reason]
    assert reader.reasons(b"[]") == reader.reasons(b"\xff") == ["not a JSON object"]


WEIGHTLESS = {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ({"a": TEXT}, {"format": "xml"}, "'json' or 'avro' or"),
        ({"a": TEXT}, {"format": "avro"}, "either 'schemaFile' or 'schemaRegistry'"),
        ({"a": TEXT}, {"schemaFile": "{car}"}, "'schemaFile' is for avro and protobuf, not for j"),
        ({"a": TEXT}, {"format": "avro", "schemaFile": "none"}, "'none': No such file"),
        ({"a": TEXT}, {"format": "avro", "schemaFile": "{text}"}, "not an Avro schema"),
        ({"a": TEXT}, {"format": "avro", "schemaFile": "{int}"}, "schema of a record"),
        ({"a": TEXT}, {"format": "avro", "schemaFile": "{weightless}"}, "take no bytes"),
        ({"nmae": TEXT}, {"format": "avro", "schemaFile": "{car}"}, "'nmae'; did you mean 'name'"),
        ({"a": TEXT}, {"format": "protobuf", "schemaFile": "{text}"}, "compile it with protoc"),
        ({"a": TEXT}, {"format": "protobuf", "schemaFile": "{two}"}, "'messageType' is .* A, B"),
        (
            {"a": TEXT},
            {"format": "protobuf", "schemaFile": "{two}", "messageType": "C"},
            "no message 'C', but A, B",
        ),
        (
            {"a": TEXT},
            {"format": "protobuf", "schemaFile": "{two}", "messageType": "A"},
            "no field for column 'a'; known are x",
        ),
        ({"a": TEXT}, {"format": "csv", "messageType": "A"}, "'messageType' is for protobuf"),
        ({"a": TEXT}, {"format": "csv", "delimiter": ";;"}, "'delimiter' must be a single"),
        ({"a": TEXT}, {"format": "csv", "delimiter": '"'}, "CSV does not use itself"),
        ({"a": TEXT}, {"format": "csv", "timeField": "t"}, "'timeField' is for json"),
        ({"a": ArrayType(TEXT)}, {"format": "csv"}, "CSV has no array<string>"),
        ({"a": TEXT, "b": TEXT}, {"format": "text"}, "one column for the whole body"),
        ({"a": INT}, {"format": "text"}, "one column for the whole body"),
        ({"ce_x": TEXT}, {"envelope": "cloudevents"}, "'ce_x' of a CloudEvent is none of ce_spec"),
        ({"ce_time": TEXT}, {"envelope": "cloudevents"}, "'ce_time' of a CloudEvent is timestamp"),
        (
            {"a": TEXT},
            {"format": "avro", "schemaRegistry": "http://u:canary@r"},
            "ACKQ_SCHEMA_REGISTRY_LOGIN",
        ),
        ({"a": TEXT}, {"format": "avro", "schemaRegistry": "r:8081"}, "a URL such as"),
    ],
)
def test_a_format_that_is_not_configured_well_is_refused(
    tmp_path: Path, columns: dict[str, DataType], options: dict[str, str], complaint: str
) -> None:
    files = {
        "car": json.dumps(AVRO).encode(),
        "text": b"no schema",
        "int": b'"int"',
        "weightless": json.dumps(
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": WEIGHTLESS}]}
        ).encode(),
        "two": descriptor_set(file(message("A", "string x"), message("B", "string a"))),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    given = {
        key: str(tmp_path / value[1:-1]) if value.startswith("{") else value
        for key, value in options.items()
    }
    with pytest.raises(ConfigurationError, match=complaint) as raised:
        Reader(columns, **given)
    assert "canary" not in str(raised.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "car.avsc").write_text(json.dumps(AVRO))
    from ackq.spark.formats import body_format

    monkeypatch.setitem(body_format.WITH_SCHEMA, "avro", "a_package.that_is_missing")
    with pytest.raises(ConfigurationError, match=r"pip install 'ackq\[formats\]'"):
        Reader({"name": TEXT}, format="avro", schemaFile=tmp_path / "car.avsc")


@pytest.mark.parametrize("kind", ["queue", "topic", "delayQueue"])
def test_every_source_has_the_formats(
    start_on: Callable[..., Engine], plain_client: redis.Redis, name: str, kind: str, tmp_path: Path
) -> None:
    (tmp_path / "car.avsc").write_text(json.dumps(AVRO))
    bodies = [as_avro(CAR), b"\x00\xff\n", b""]
    if kind == "queue":
        with Queue(plain_client, name) as queue:
            queue.push_many(bodies)
    elif kind == "topic":
        with Topic(plain_client, name) as topic:
            topic.publish_many(bodies)
    else:
        with DelayQueue(plain_client, name) as delayed:
            delayed.push_many(DelayEntry(str(n), body, at=n + 1) for n, body in enumerate(bodies))
    schema = StructType([StructField("name", TEXT), StructField("_corrupt_record", TEXT)])
    options = {kind: name, "format": "avro", "schemaFile": tmp_path / "car.avsc"}
    checkpoint = Checkpoint()
    start_on(checkpoint, schema=schema, **options).run()
    assert checkpoint.rows() == [
        {"name": "é", "_corrupt_record": None},
        {"name": None, "_corrupt_record": "\x00\ufffd\n"},
        {"name": None, "_corrupt_record": ""},
    ]
