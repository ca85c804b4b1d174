"""Values from JSON, one by one and in bulk: examples, with no Spark session."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from ackq.spark.columns import columns_of
from ackq.spark.in_bulk import InBulk
from ackq.spark.options import Reading
from ackq.spark.rows import Rows, unconverted
from ackq.spark.values import MISFITS, Partial, converter, fitting, parse, parse_all

US = pa.timestamp("us")
UTC_US = pa.timestamp("us", "UTC")


def _bulk(kind: pa.DataType, *texts: str, zone: str = "UTC") -> tuple[list[Any], list[int]]:
    """Return the values of a column, and the rows that are left to the slower parser."""
    bodies = [b'{"a":%b}' % text.encode() for text in texts]
    parsed = InBulk([pa.field("a", kind)], zone).parse(bodies, pa.array(bodies, pa.binary()))
    assert parsed is not None
    assert parsed.arrays["a"].type == kind
    return parsed.arrays["a"].to_pylist(), parsed.left


def _at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


def test_numbers_texts_and_booleans_in_bulk() -> None:
    assert _bulk(pa.int8(), "1", "-128", "null", "12") == ([1, -128, None, 12], [])
    values, left = _bulk(pa.int8(), "1", "300", '"x"', "2", "3", "4")
    assert (left, values[0], values[3:]) == ([1, 2], 1, [2, 3, 4])
    values, left = _bulk(pa.float64(), "1.5", "1e400", "null", "-1e400", "2")
    assert left == [1, 3]
    assert (values[0], values[2], values[4]) == (1.5, None, 2.0)
    values, left = _bulk(pa.float64(), "1.5", '"NaN"', "2", "3")
    assert (left, values[0], values[2:]) == ([1], 1.5, [2.0, 3.0])
    assert _bulk(pa.bool_(), "true", "false", "null") == ([True, False, None], [])
    assert _bulk(pa.bool_(), "true", "1", "false", "true")[1] == [1]
    assert _bulk(pa.string(), '"x"', "null", '""') == (["x", None, ""], [])
    assert _bulk(pa.string(), '"x"', "{}", '"y"', '"z"')[1] == [1]


def test_days_in_bulk() -> None:
    assert _bulk(pa.date32(), '"2024-02-28"', "null") == ([date(2024, 2, 28), None], [])
    # All of these are days, so none is looked at.
    assert _bulk(pa.date32(), '"2024-02-29"', '"1999-12-31"')[1] == []
    values, left = _bulk(
        pa.date32(),
        '"2024-01-31"',
        '"2023-02-30"',
        '"x"',
        '"2024-04-30"',
        '"2024-04-31"',
        "null",
        '"2024-02-29"',
        '"0000-01-01"',
    )
    assert left == [1, 2, 4, 6, 7]
    assert (values[0], values[3], values[5]) == (date(2024, 1, 31), date(2024, 4, 30), None)
    # A day before the first one that Python has.
    assert _bulk(pa.date32(), '"0001-01-01"')[1] == []
    assert _bulk(pa.date32(), '"-0001-01-01"', '"2024-01-01"', '"2024-01-02"')[1] == [0]


def test_times_without_a_zone_in_bulk() -> None:
    assert _bulk(US, '"2024-01-31T23:59:58.5"', "null") == (
        [datetime(2024, 1, 31, 23, 59, 58, 500_000), None],
        [],
    )
    values, left = _bulk(
        US, '"2024-01-31 23:59:58"', '"2024-01-31T23:59:58Z"', '"2024-01-31T24:00:00"', '"soon"'
    )
    assert (values[0], left) == (datetime(2024, 1, 31, 23, 59, 58), [1, 2, 3])


def test_times_with_a_zone_in_bulk() -> None:
    zone = "Europe/Berlin"
    # None, all, or some of them name a zone.
    assert _bulk(UTC_US, '"2024-07-01T12:00:00"', zone=zone) == ([_at(2024, 7, 1, 10)], [])
    assert _bulk(UTC_US, '"2024-07-01T12:00:00Z"', '"2024-07-01T12:00:00+02:00"', zone=zone) == (
        [_at(2024, 7, 1, 12), _at(2024, 7, 1, 10)],
        [],
    )
    values, left = _bulk(
        UTC_US, '"2024-07-01T12:00:00Z"', '"2024-07-01T12:00:00"', "null", '"x"', zone=zone
    )
    assert (values[:3], left) == ([_at(2024, 7, 1, 12), _at(2024, 7, 1, 10), None], [3])
    # The clock is put back at 3:00, and put forward at 2:00.
    assert _bulk(UTC_US, '"2024-10-27T02:30:00"', zone=zone) == ([_at(2024, 10, 27, 0, 30)], [])
    assert _bulk(UTC_US, '"2024-03-31T02:30:00"', '"2024-03-31T03:30:00"', zone=zone) == (
        [None, _at(2024, 3, 31, 1, 30)],
        [0],
    )
    # Years for which not every implementation has the rules, and a zone that Arrow does not know.
    for year in (1969, 2038):
        assert _bulk(UTC_US, f'"{year}-07-01T12:00:00"', zone=zone)[1] == [0]
    for year in (1970, 2037):
        assert _bulk(UTC_US, f'"{year}-07-01T12:00:00"', zone=zone)[1] == []
    assert _bulk(UTC_US, '"2024-07-01T12:00:00"', zone="No/Where")[1] == [0]


def test_decimals_in_bulk_are_rounded_half_away_from_zero() -> None:
    kind = pa.decimal128(5, 2)
    values, left = _bulk(kind, "1.005", "-1.005", "1.0049", "999.99", '"2.5"', "null")
    assert values == [*map(Decimal, ("1.01", "-1.01", "1.00", "999.99", "2.50")), None]
    assert left == []
    values, left = _bulk(kind, "1", "1000", "-1000.00", "999.99")
    assert (left, values[0], values[3]) == ([1, 2], Decimal("1.00"), Decimal("999.99"))
    wide = pa.decimal128(38, 20)
    assert _bulk(wide, "123456789012345678.00000000000000000005") == (
        [Decimal("123456789012345678.00000000000000000005")],
        [],
    )


def test_lists_and_structs_in_bulk_are_left_where_a_part_of_them_is() -> None:
    values, left = _bulk(
        pa.list_(pa.date32()), '["2024-01-01","x"]', "[]", "null", '["2024-01-02"]'
    )
    assert (left, values[1:]) == ([0], [[], None, [date(2024, 1, 2)]])
    assert _bulk(pa.list_(pa.date32()), '["2024-01-01"]', "null")[1] == []
    # Times in them are those of the zone, too.
    noon, local = '"2024-07-01T12:00:00"', _at(2024, 7, 1, 10)
    zone = "Europe/Berlin"
    assert _bulk(pa.list_(UTC_US), f"[{noon}]", zone=zone) == ([[local]], [])
    times = pa.struct([("t", UTC_US)])
    assert _bulk(times, f'{{"t":{noon}}}', zone=zone) == ([{"t": local}], [])
    assert _bulk(pa.list_(pa.int32()), "[1,2]", "null", "[]") == ([[1, 2], None, []], [])
    assert _bulk(pa.list_(pa.int32()), "[1]", "{}", "[2]", "[3]")[1] == [1]
    kind = pa.struct([("d", pa.date32()), ("f", pa.float64())])
    values, left = _bulk(
        kind, '{"d":"2024-01-01","f":1.5}', "null", '{"d":"x"}', '{"f":1e400}', "{}"
    )
    assert left == [2, 3]
    assert values[:2] == [{"d": date(2024, 1, 1), "f": 1.5}, None]
    assert values[4] == {"d": None, "f": None}
    kind = pa.struct([("i", pa.int32()), ("s", pa.string())])
    assert _bulk(kind, '{"i":1,"s":"x"}', "null") == ([{"i": 1, "s": "x"}, None], [])
    for not_in_bulk in (pa.binary(), pa.list_(pa.binary()), pa.struct([("b", pa.binary())])):
        bulk = InBulk([pa.field("a", not_in_bulk)], "UTC")
        assert bulk.parse([b"{}"], pa.array([b"{}"])) is None


def test_bodies_that_are_no_object_are_left_wherever_they_are() -> None:
    bodies = [
        b'{"a":1}',
        b' {"a":2}\n',
        b"",
        b"[]",
        b"{",
        b'{"a":3}{"a":4}',
        b'{"a":"\xff"}',
        b'{"b":"\xff"}',
        b'{"a":5}',
        b'{"a":6}',
        b'{"a":7}',
        b'{"a":8}',
    ]
    bulk = InBulk([pa.field("a", pa.int32())], "UTC")
    for _ in range(2):  # the second call begins with the scans that helped
        parsed = bulk.parse(bodies, pa.array(bodies, pa.binary()))
        assert parsed is not None
        assert parsed.left == [2, 3, 4, 5, 6, 7]
        values = parsed.arrays["a"].to_pylist()
        assert (values[:2], values[8:]) == ([1, 2], [5, 6, 7, 8])
    assert bulk.parse([], pa.array([], pa.binary())) is None


# --- one by one -----------------------------------------------------------------------------


STRUCT = spark.StructType().add("i", spark.IntegerType()).add("t", spark.TimestampType())

#: Python's parser takes these for times.
NO_TIMES = (
    *("2024-12-01-15", "2026-01-05+02:00", "2026-W05-1", "20240105", "20240105T120000"),
    *("2024-01-05x10:30", "2024-01-05T10:30:00,5", "2024-01-05T10:30:00+02:00:30"),
    *("\u0662024-01-05", "2024-01-05T24:00"),
)


@pytest.mark.parametrize(
    ("kind", "fits", "misfits"),
    [
        (spark.ByteType(), {127: 127, -128: -128}, (128, -129, True, "1", 1.0)),
        (spark.LongType(), {2**63 - 1: 2**63 - 1}, (2**63,)),
        (
            spark.DoubleType(),
            {
                1: 1.0,
                1.5: 1.5,
                "-INF": -math.inf,
                "+Infinity": math.inf,
            },
            (True, "1", "inf", 10**400, -(10**400)),
        ),
        (spark.FloatType(), {3.4e38: 3.4e38}, (3.5e38, -3.5e38, 10**39)),
        (
            spark.DecimalType(3, 1),
            {
                1: Decimal("1.0"),
                "1.25": Decimal("1.3"),
                99.9: Decimal("99.9"),
                "+.5": Decimal(".5"),
            },
            (100, True, None, "NaN", "x", 99.95, "1_0", "\u0661", " 1", "."),
        ),
        (spark.BooleanType(), {True: True, False: False}, (1.5, "true")),
        (spark.BinaryType(), {"AQI=": b"\1\2", "A Q\nI=": b"\1\2"}, (1, "A", "*AQI=")),
        (
            spark.DateType(),
            {
                "2024-02-29": date(2024, 2, 29),
                " 2024-02-29 ": date(2024, 2, 29),
                "2024-02-29T23:00:00Z": date(2024, 2, 29),
            },
            (1, "2023-02-29", *NO_TIMES),
        ),
        (
            spark.TimestampType(),
            {
                0: _at(1970, 1, 1),
                1_700_000_000: _at(2023, 11, 14, 22, 13, 20),
                "2024-07-01T12:00:00": _at(2024, 7, 1, 10),
                "2024-07-01T12:00:00.1234567Z": _at(2024, 7, 1, 12, 0, 0, 123456),
            },
            (1.5, "x", True, None, *NO_TIMES),
        ),
        (
            spark.TimestampNTZType(),
            {"2024-07-01 12:00": datetime(2024, 7, 1, 12)},
            ("2024-07-01T12:00:00Z", 5),
        ),
        (spark.StringType(), {"x": "x", 1: "1", 2**70: str(2**70)}, ("\ud800",)),
    ],
    ids=str,
)
def test_a_value_becomes_what_sparks_reader_makes_of_it(
    kind: spark.DataType, fits: dict[Any, Any], misfits: tuple[Any, ...]
) -> None:
    convert = converter(kind, "Europe/Berlin")
    for value, expected in fits.items():
        found = convert(value)
        assert found == expected
        assert type(found) is type(expected)
    for value in misfits:
        with pytest.raises(MISFITS):
            convert(value)


def test_what_fits_of_a_value_in_parts_is_kept() -> None:
    convert = converter(STRUCT, "UTC")
    moment = _at(2024, 1, 1)
    assert convert({"i": 1, "t": "2024-01-01T00:00:00", "x": 5}) == {"i": 1, "t": moment}
    assert convert({}) == {"i": None, "t": None}
    assert fitting(convert, {"i": "x", "t": 0}) == ({"i": None, "t": _at(1970, 1, 1)}, False)
    assert fitting(convert, []) == (None, False)
    assert fitting(convert, None) == (None, True)
    many = converter(spark.ArrayType(STRUCT), "UTC")
    assert many([{"i": 1}, None]) == [{"i": 1, "t": None}, None]
    with pytest.raises(Partial) as partly:
        many([{"i": "x"}, {"i": 2}])
    assert partly.value.rest == [{"i": None, "t": None}, {"i": 2, "t": None}]
    with pytest.raises(MISFITS):
        many([1])
    pairs = converter(spark.MapType(spark.StringType(), STRUCT), "UTC")
    assert pairs({"a": {"i": 1}, "b": None}) == [("a", {"i": 1, "t": None}), ("b", None)]
    assert fitting(pairs, {"a": {"i": "x"}}) == ([("a", {"i": None, "t": None})], False)
    assert fitting(pairs, {"a": 1}) == (None, False)


def test_a_text_is_written_as_it_was_read() -> None:
    text = converter(spark.StringType(), "UTC")
    assert text({"a": [1, 1.5, "ü", None, True]}) == '{"a":[1,1.5,"ü",null,true]}'
    (odd,) = parse_all([b'{"a":[1e400,{"b":NaN},2.50,"x"]}'], False)
    assert text(odd["a"]) == '[1e400,{"b":"NaN"},2.50,"x"]'
    assert text([2**70, {"ü": 1}]) == f'[{2**70},{{"ü":1}}]'
    assert text([2**70, math.inf, [-math.inf]]) == f'[{2**70},"Infinity",["-Infinity"]]'


def test_a_body_is_an_object_and_may_keep_every_digit() -> None:
    assert parse(b'{"a":1.10}', False) == {"a": 1.1}
    exact = parse(b'{"a":1.100000000000000000001}', True)["a"]
    decimal = converter(spark.DecimalType(30, 21), "UTC")
    assert decimal(exact) == Decimal("1.100000000000000000001")
    assert math.isnan(parse(b'{"a":NaN}', False)["a"])
    for wrong in (b"[]", b"1", b"{", b"", b"\xff", b'{"a":NaN'):
        for keep in (False, True):
            with pytest.raises(MISFITS):
                parse(wrong, keep)
    assert parse_all([b'{"a":1}', b'{"b":2}'], False) == [{"a": 1}, {"b": 2}]
    for keep in (False, True):
        assert parse_all([b'{"a":1}', b"[]", b"{", b'{"a":Infinity}'], keep) == [
            {"a": 1},
            None,
            None,
            {"a": math.inf},
        ]


def test_decimals_keep_every_digit_where_bodies_are_parsed_one_by_one() -> None:
    many = spark.MapType(spark.StringType(), spark.IntegerType())  # not read in bulk
    schema = spark.StructType().add("a", spark.DecimalType(38, 20)).add("m", many)
    reading = Reading.of({"queue": "jobs"})
    rows = Rows(columns_of(reading, schema), reading.parsing)
    digits = "123456789012345678.00000000000000000005"
    batch = rows.batch([b'{"a":%b,"m":{"x":1}}' % digits.encode(), b'{"a":"1"}'], {}, "here")
    assert batch.column("a").to_pylist() == [Decimal(digits), Decimal(1)]
    assert batch.column("m").to_pylist() == [[("x", 1)], None]


def test_columns_of_plain_values_are_made_at_once() -> None:
    def made(values: list[Any], kind: spark.DataType, arrow: pa.DataType) -> Any:
        found = unconverted(values, kind, arrow)
        return None if found is None else found.to_pylist()

    ints = spark.IntegerType()
    assert made([1, None, 2], ints, pa.int32()) == [1, None, 2]
    for misfit in (True, 1.5, "1", 2**31):
        assert made([1, misfit], ints, pa.int32()) is None
    assert made(["x", None], spark.StringType(), pa.string()) == ["x", None]
    assert made([date(2024, 1, 1)], spark.DateType(), pa.date32()) is None
    kind, arrow = spark.MapType(spark.StringType(), ints), pa.map_(pa.string(), pa.int32())
    maps = [{"a": 1, "b": None}, None, {}, {"c": 3}]
    assert made(maps, kind, arrow) == [[("a", 1), ("b", None)], None, [], [("c", 3)]]
    assert made(maps[2:], kind, arrow) == [[], [("c", 3)]]
    assert made([{"a": "x"}], kind, arrow) is None
    assert made([[]], kind, arrow) is None
