"""From rows to messages, without a session."""

import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import types as T

from ackq import ConfigurationError, InvalidMessage
from ackq.errors import MessageTooLarge
from ackq.spark.row_encoder import Messages, RowEncoder, with_id
from ackq.spark.sink import BatchSink, StreamSink
from ackq.spark.sink_options import Writing

Fields = dict[str, tuple[T.DataType, pa.DataType, list[Any]]]
NOW = 1_700_000_000_000_000
TEXT = (T.StringType(), pa.string())
NUMBER = (T.LongType(), pa.int64())
TIME = (T.TimestampType(), pa.timestamp("us", "UTC"))


def where(number: int) -> str:
    return f"row {number}"


def encode(fields: Fields, **options: str) -> Messages:
    """Return the messages of one batch."""
    schema = T.StructType([T.StructField(name, each[0]) for name, each in fields.items()])
    columns = [pa.array(values, kind) for _, kind, values in fields.values()]
    batch = pa.RecordBatch.from_arrays(columns, list(fields))
    if not options.keys() & {"topic", "delayQueue"}:
        options["queue"] = "jobs"
    encoder = RowEncoder(schema, Writing.of(options, stream=False))
    return encoder.encode(batch, where, NOW)


def parsed(fields: Fields, **options: str) -> list[Any]:
    return [orjson.loads(body) for body in encode(fields, **options).bodies]


def test_all_columns_become_an_object_with_the_id_in_front() -> None:
    messages = encode({"n": (*NUMBER, [1, None]), "id": (*TEXT, ["a", "b"])})
    assert messages.bodies == [b'{"id":"a","n":1}', b'{"id":"b","n":null}']
    assert not messages.unnamed


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "expected"),
    [
        (T.DoubleType(), pa.float64(), 1.5, b"1.5"),
        (T.DoubleType(), pa.float64(), float("nan"), b'"NaN"'),
        (T.FloatType(), pa.float32(), float("-inf"), b'"-Infinity"'),
        (
            T.DecimalType(38, 2),
            pa.decimal128(38, 2),
            Decimal("12345678901234567890.10"),
            b"12345678901234567890.10",
        ),
        (T.DecimalType(20, 0), pa.decimal128(20, 0), Decimal("1E+3"), b"1000"),
        (T.BinaryType(), pa.binary(), b"\0\xff", b'"AP8="'),
        (T.BooleanType(), pa.bool_(), True, b"true"),
        (T.LongType(), pa.int64(), 2**63 - 1, b"9223372036854775807"),
        (T.DateType(), pa.date32(), date(2024, 2, 29), b'"2024-02-29"'),
        (
            T.TimestampType(),
            pa.timestamp("us", "UTC"),
            datetime(2024, 1, 2, 3, 4, 5, 6, UTC),
            b'"2024-01-02T03:04:05.000006+00:00"',
        ),
        (T.TimestampNTZType(), pa.timestamp("us"), datetime(2024, 1, 2), b'"2024-01-02T00:00:00"'),
        (T.ArrayType(T.BinaryType()), pa.list_(pa.binary()), [b"a", None], b'["YQ==",null]'),
        (
            T.MapType(T.IntegerType(), T.DoubleType()),
            pa.map_(pa.int32(), pa.float64()),
            [(1, float("inf"))],
            b'{"1":"Infinity"}',
        ),
        (
            T.MapType(T.BooleanType(), T.BinaryType()),
            pa.map_(pa.bool_(), pa.binary()),
            [(True, b"\1")],
            b'{"true":"AQ=="}',
        ),
        (
            T.StructType().add("x", T.DecimalType(3, 1)).add("y", T.StringType()),
            pa.struct([("x", pa.decimal128(3, 1)), ("y", pa.string())]),
            {"x": Decimal("1.0"), "y": None},
            b'{"x":1.0,"y":null}',
        ),
    ],
)
def test_values_are_written_as_sparks_to_json_writes_them(
    kind: T.DataType, arrow: pa.DataType, value: Any, expected: bytes
) -> None:
    messages = encode({"id": (*TEXT, ["a", "b"]), "x": (kind, arrow, [value, None])})
    assert messages.bodies == [b'{"id":"a","x":%b}' % expected, b'{"id":"b","x":null}']


def test_rows_without_an_id_are_named_later() -> None:
    messages = encode({"id": (*NUMBER, [7, None]), "n": (*NUMBER, [1, 2])})
    assert messages.bodies == [b'{"id":7,"n":1}', b'{"n":2}']
    assert messages.unnamed == [1]
    assert with_id(b'{"n":2}', 'a"b') == b'{"id":"a\\"b","n":2}'
    assert with_id(b"{}", "a") == b'{"id":"a"}'


def test_a_column_may_be_the_id_under_another_name() -> None:
    assert encode({"order": (*TEXT, ["a"]), "n": (*NUMBER, [1])}, idColumn="order").bodies == [
        b'{"id":"a","n":1}'
    ]


def test_whole_messages_pass_as_they_are() -> None:
    bodies = [b'{"id":"a"}', b"\xff\0", b""]
    for name, options in (("value", {}), ("text", {"valueColumn": "text"})):
        fields: Fields = {name: (T.BinaryType(), pa.binary(), bodies)}
        assert encode(fields, **options).bodies == bodies


@pytest.mark.parametrize("bytes_too", [False, True])
def test_rows_of_the_source_pass_as_they_came(bytes_too: bool) -> None:
    fields: Fields = {
        "id": (*TEXT, ["a"]),
        "value": (*TEXT, ["b?"]),
        "queue": (*TEXT, ["q"]),
        "batch": (*NUMBER, [1]),
        "position": (*NUMBER, [0]),
    }
    if bytes_too:
        fields["_body"] = (T.BinaryType(), pa.binary(), [b"b\xff"])
    assert encode(fields).bodies == [b"b\xff" if bytes_too else b"b?"]


def test_rows_of_a_topic_pass_as_they_came() -> None:
    fields: Fields = {
        "id": (*TEXT, ["a"]),
        "value": (*TEXT, ["b?"]),
        "topic": (*TEXT, ["t"]),
        "offset": (*NUMBER, [7]),
    }
    assert encode(fields).bodies == [b"b?"]


def test_a_value_that_has_an_id_keeps_it_and_another_gets_that_of_its_row() -> None:
    values = ['{"id":"own"}', ' {"n":1}', "{}"]
    fields: Fields = {"value": (*TEXT, values), "key": (*TEXT, ["a", "b", "c"])}
    assert encode(fields, idColumn="key").bodies == [
        b'{"id":"own"}',
        b'{"id":"b","n":1}',
        b'{"id":"c"}',
    ]


@pytest.mark.parametrize("value", ["text", "[1]", '{"id":null}', "7"])
def test_a_value_to_which_no_id_can_be_added_is_refused_by_its_row(value: str) -> None:
    fields: Fields = {"value": (*TEXT, ['{"id":"x"}', value]), "key": (*TEXT, ["a", "b"])}
    with pytest.raises(InvalidMessage, match=r"^row 1: .*not a JSON object"):
        encode(fields, idColumn="key")


def test_a_null_value_is_refused_by_its_row() -> None:
    with pytest.raises(InvalidMessage, match=r"^row 2: column 'value' is null"):
        encode({"value": (*TEXT, ["a", "b", None, None])})


@pytest.mark.parametrize("bad", ["", "x" * 513, "\0x", "é" * 257])
def test_an_invalid_id_is_refused_by_its_row(bad: str) -> None:
    with pytest.raises(InvalidMessage, match=r"^row 1: the id .* is not valid"):
        encode({"id": (*TEXT, ["a", bad])})


def test_a_time_that_json_has_no_form_for_is_refused_by_its_row() -> None:
    fields: Fields = {"when": (*TIME, [0, 2**62])}
    with pytest.raises(InvalidMessage, match=r"^row 1: column 'when' has a time outside"):
        encode(fields)


def test_a_body_over_the_limit_is_refused_by_its_row() -> None:
    with pytest.raises(MessageTooLarge, match=r"^row 1 is a message of 11 bytes"):
        encode({"value": (*TEXT, ["x" * 10, "x" * 11])}, maxBodyBytes="10")


def test_delays_count_from_now_and_instants_do_not() -> None:
    fields: Fields = {
        "id": (*TEXT, ["a", "b", "c"]),
        "wait": (T.DoubleType(), pa.float64(), [1.5, None, 0.0]),
    }
    messages = encode(fields, delayColumn="wait")
    assert messages.dues == [NOW + 1_500_000, None, None]
    assert messages.bodies[0] == b'{"id":"a"}'
    instants = [datetime(2024, 1, 1, 0, 0, 0, 1, UTC), None, datetime(1960, 1, 1, tzinfo=UTC)]
    messages = encode({"id": fields["id"], "when": (*TIME, instants)}, atColumn="when")
    assert messages.dues == [1_704_067_200_000_001, None, 0]


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), 1e12])
def test_an_invalid_delay_is_refused_by_its_row(bad: float) -> None:
    fields: Fields = {"id": (*TEXT, ["a"]), "wait": (T.DoubleType(), pa.float64(), [bad])}
    with pytest.raises(InvalidMessage, match=r"^row 0: column 'wait' is .*not a valid delay"):
        encode(fields, delayColumn="wait")


REFUSED: list[tuple[T.StructType, dict[str, str], str]] = [
    (T.StructType().add("i", T.DayTimeIntervalType()), {}, "'i' is interval day to second"),
    (T.StructType().add("v", T.ArrayType(T.VariantType())), {}, "'v' is variant"),
    (T.StructType().add("n", T.LongType()).add("n", T.LongType()), {}, "two columns"),
    (T.StructType().add("id", T.DoubleType()), {}, "'id' is double"),
    (T.StructType().add("id", T.LongType()).add("k", T.LongType()), {"idColumn": "k"}, "drop or"),
    (T.StructType().add("n", T.LongType()), {"valueColumn": "n"}, "'n' is bigint"),
    (
        T.StructType().add("n", T.LongType()),
        {"valueColumn": "m"},
        "the column 'm', which does not exist: there are n",
    ),
    (T.StructType().add("n", T.StringType()), {"delayColumn": "n"}, "needs numeric"),
    (T.StructType().add("n", T.TimestampNTZType()), {"atColumn": "n"}, "needs timestamp"),
]


@pytest.mark.parametrize(("schema", "options", "error"), REFUSED)
def test_columns_that_cannot_be_sent_are_refused_by_name(
    schema: T.StructType, options: dict[str, str], error: str
) -> None:
    with pytest.raises(ConfigurationError, match=error):
        BatchSink({"queue": "jobs", **options}, schema, False)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"queue": "q", "txnAppID": "a"}, "set both 'txnAppId' and"),
        ({"queue": "q", "txnVersion": "1"}, "set both 'txnAppId' and"),
        ({"queue": "q", "txnAppId": "a", "txnVersion": "-1"}, "'txnVersion' must be an integer"),
        ({"queue": "q", "writemod": "direct"}, "did you mean 'writeMode'"),
        ({"queue": "q", "writeMode": "quick"}, "'transactional' or 'direct'"),
        ({"topic": "t", "writeMode": "direct"}, "is only for queues"),
        ({"queue": "q", "writeMode": "direct", "txnAppId": "a", "txnVersion": "1"}, "no transac"),
        ({"queue": "q", "writeMode": "direct", "txnAppId": "a"}, "no transac"),
        ({"topic": "t", "delayColumn": "d"}, "'delayColumn' is for queue and delayQueue"),
        ({"topic": "t", "atColumn": "t"}, "'atColumn' is for queue and delayQueue, not for topic"),
        ({"queue": "q", "partitions": "2"}, "'partitions' is for delayQueue"),
        ({"queue": "q", "retentionMs": "2"}, "'retentionMs' is for topic, not for queue"),
        ({"delayQueue": "q", "retentionMessages": "5"}, "'retentionMessages' is for topic"),
        ({"queue": "q", "delayColumn": "d", "atColumn": "a"}, "not both"),
        ({"queue": "q", "groupId": "g"}, "unknown option 'groupId'"),
        ({}, "set one of the options 'queue'"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        BatchSink(options, T.StructType().add("value", T.StringType()), False)


@pytest.mark.parametrize(
    ("writer", "error"), [(BatchSink, r"mode\('append'\)"), (StreamSink, "'complete'")]
)
def test_nothing_is_overwritten(writer: Callable[..., Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        writer({"queue": "q"}, T.StructType().add("value", T.StringType()), True)


def test_pickled_objects_contain_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKQ_REDIS_URL", "redis://:canary@localhost:1/0")
    monkeypatch.setattr(Writing, "located", lambda writing: writing)  # there is no server
    schema = T.StructType().add("value", T.StringType())
    for writer in (BatchSink, StreamSink):
        assert b"canary" not in pickle.dumps(writer({"queue": "q"}, schema, False))
    with pytest.raises(ConfigurationError, match="environment") as refused:
        BatchSink({"queue": "q", "url": "redis://:canary@localhost:1/0"}, schema, False)
    assert "canary" not in str(refused.value)


def test_values_that_need_keys_are_written_as_they_are() -> None:
    bodies = [b'{"id":"a"}', b'{"id":5,"x":1}', b"no JSON", b'{"id":"d"}']
    fields: Fields = {
        "v": (T.BinaryType(), pa.binary(), bodies),
        "k": (*TEXT, [None, "b", "c", None]),
    }
    found = encode(fields, delayQueue="later", valueColumn="v", idColumn="k")
    assert found.bodies == bodies
    assert found.keys == ["a", "b", "c", "d"]
    found = encode({"v": fields["v"]}, delayQueue="later", valueColumn="v")
    assert (found.bodies, found.keys) == (bodies, ["a", "5", None, "d"])
    found = encode({"v": fields["v"]}, valueColumn="v")
    assert (found.bodies, found.keys, found.unnamed, found.dues) == (bodies, (), [], [])


def test_the_options_of_a_sink_have_defaults_and_units() -> None:
    found = Writing.of({"topic": "t", "retentionMs": "1500", "retentionMessages": "7"}, stream=True)
    assert (found.max_age, found.max_messages, found.partitions) == (1.5, 7, None)
    assert (found.mode, found.transaction, found.max_body_bytes) == ("transactional", None, 1024**2)
    found = Writing.of({"queue": "q", "txnAppId": "a", "txnVersion": "0"}, stream=False)
    assert (found.transaction, found.max_age, found.max_messages) == (("a", 0), None, None)
    with pytest.raises(ConfigurationError, match="'txnAppId' is for a transactional batch write"):
        Writing.of({"queue": "q", "txnAppId": "a", "txnVersion": "1"}, stream=True)
