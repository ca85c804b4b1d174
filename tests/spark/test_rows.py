"""From bodies to rows: as Spark's own JSON reader makes them, whichever way they are read."""

import json
import math
import os
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    _parse_datatype_string,
)

from ackq.core.ids import usable_id
from ackq.errors import ConfigurationError, InvalidMessage
from ackq.spark.columns import columns_of, default_schema
from ackq.spark.options import Reading
from ackq.spark.rows import Rows

#: Bodies that fit, bodies that do not, and bodies that Spark's reader surprises with.
BODIES = [
    b'{"s":"a","i":1,"l":2,"d":1.5,"b":true}',
    b'{"s":null,"i":null,"extra":[1,{"x":2}]}',
    b"{}",
    b'{"s":"\\u00e9\\ud83d\\ude00","i":-0}',
    '{"s":"é😀"}'.encode(),
    b'{"s":"","l":9223372036854775807}',
    b'{"l":9223372036854775808}',
    b'{"i":2147483648}',
    b'{"i":1.0}',
    b'{"i":1e2}',
    b'{"i":"1"}',
    b'{"i":true}',
    b'{"s":1}',
    b'{"s":true}',
    b'{"s":{"a":[1,null,"x"]}}',
    b'{"s":[1,2]}',
    b'{"d":1}',
    b'{"d":"NaN"}',
    b'{"d":NaN}',
    b'{"d":-Infinity}',
    b'{"d":"-Infinity"}',
    b'{"d":"x"}',
    b'{"d":1e400}',
    b'{"d":%b}' % (b"1" * 400),
    b'{"d":-%b}' % (b"1" * 400),
    b'{"d":1e-400}',
    b'{"d":0.1234567890123456789}',
    b'{"f":1e39}',
    b'{"f":0.1}',
    # On the middle of two floats as a double, and beside it as written.
    b'{"f":3.4028235677973366e38}',
    b'{"f":-3.4028235677973366e38}',
    b'{"f":340282356779733661637539395458142568447}',
    b'{"f":3.402823567797337e+38}',
    b'{"f":-340282356779733661637539395458142568448}',
    b'{"f":1.00000005960464477539062500001}',
    b'{"f":1.000000059604644775390625}',
    b'{"f":9007199791611905}',
    b'{"f":7.006492321624085354618e-46}',
    b'{"f":7.006492321624085354619e-46}',
    b'{"f":-1e-400}',
    b'{"b":"true"}',
    b'{"b":1}',
    b'{"S":"other case"}',
    b'{"s":"a","s":"b"}',
    b'  {"s":"spaces"}  ',
    b'{"s":"a"',
    b'{"s":"a"}}',
    b'{"s":"a"}{"s":"b"}',
    b"{'s':'a'}",
    b'{"s":"a",}',
    b'{"s":01}',
    b"[1]",
    b'"text"',
    b"12",
    b"not json",
    b'{"s":"line\nbreak"}',
    b'{\n"s": "pretty",\n"i": 3\n}',
    b'{"a":[1,2,null]}',
    b'{"a":[]}',
    b'{"a":"no"}',
    b'{"o":{"x":1,"y":"z"}}',
    b'{"o":{"x":null}}',
    b'{"o":[]}',
    b'{"m":{"k":1.5,"n":null}}',
    b'{"m":{}}',
    b'{"t":"2024-02-29T12:30:00Z"}',
    b'{"t":"2024-02-29T12:30:00.123456+02:00"}',
    b'{"t":"2024-02-29 12:30:00"}',
    b'{"t":"2024-02-29"}',
    b'{"t":"2023-02-29"}',
    b'{"t":"soon"}',
    b'{"t":1700000000}',
    b'{"day":"2024-02-29"}',
    b'{"day":"2024-13-01"}',
    b'{"day":19000}',
    b'{"p":1.23}',
    b'{"p":"4.56"}',
    b'{"p":1.235}',
    b'{"p":12345678901}',
    b'{"p":7}',
    b'{"p":"1,000.50"}',
    b'{"y":2}',
    b'{"y":200}',
    b'{"d":"INF"}',
    b'{"d":"-INF"}',
    b'{"z":"AAEC"}',
    b'{"z":"AAEC\\r\\nAAEC"}',
    b'{"z":"AAE"}',
    # Numbers that a text has to keep.
    b'{"s":12345678901234567890123456789}',
    b'{"s":[-12345678901234567890123456789,1.5,{"a":18446744073709551616}]}',
    b'{ "s" : 18446744073709551616 }',
    b'{"s":NaN}',
    b'{"s":[NaN,-Infinity,1.0]}',
    b'{"s":[-9223372036854775809,Infinity]}',
    b'{"s":"\\ud800"}',
    b'{"s":["\\ud800"]}',
    b'{"s":' + b"[" * 300 + b"]" * 300 + b"}",
    b'{"m":{"\\ud800":1.5}}',
    # Misfits within: a struct keeps the rest of it, and so do those around it; but a scalar takes
    # its array or its map with it.
    b'{"s":"a","o":{"x":"no","y":"z"}}',
    b'{"s":"a","o":{"x":1.5,"y":{"z":1}}}',
    b'{"s":"a","a":[1,"x",2]}',
    b'{"s":"a","m":{"k":1.5,"n":"x"}}',
    b'{"s":"a","q":[{"x":1,"in":{"g":[[1],[2]],"w":"b"}},{"x":"no","in":{"w":"c"}},null]}',
    b'{"s":"a","q":[{"x":1,"in":{"g":[[1],["x"]],"w":"b"}},{"x":2}]}',
    b'{"s":"a","q":[{"x":1,"in":7},{"x":2}]}',
    b'{"s":"a","q":[{"x":1},7]}',
    b'{"s":"a","q":{"x":1}}',
    b'{"s":"a","r":{"k":[{"x":1,"h":{"j":1}}],"n":[{"x":2,"h":{"j":1,"k":true}},{"x":"no"}]}}',
    b'{"s":"a","r":{"k":[{"x":1}],"n":[{"x":1},[]]}}',
    b'{"s":"a","r":{"k":[{"x":1}],"n":null}}',
    b'{"s":"a","r":[]}',
]
#: Numbers that Spark's reader changes in a text, and ackq does not.
WRITTEN = {
    b'{"s":1.10}': "1.10",
    b'{"s":1.50,"d":2.5}': "1.50",
    b'{"s":0.00001}': "0.00001",
    b'{"s":12345678901234567890.123}': "12345678901234567890.123",
    b'{"s":1e400}': "1e400",
    b'{"s": -0}': "-0",
    b'{"s":1E5,"l":-0}': "1E5",
    b'{"s":[1e400,-1E0400,1e-400]}': "[1e400,-1E0400,1e-400]",
    b'{"s":{"a":18446744073709551616,"b":[[-1e400],{"c":NaN}],"d":0.50}}': (
        '{"a":18446744073709551616,"b":[[-1e400],{"c":"NaN"}],"d":0.50}'
    ),
}
SCHEMA = (
    "s string, i int, l bigint, d double, f float, b boolean, y tinyint, a array<int>,"
    " o struct<x: int, y: string>, m map<string, double>, t timestamp, day date, p decimal(10, 2),"
    " z binary, q array<struct<x: int, in: struct<g: array<array<int>>, w: string>>>,"
    " r map<string, array<struct<x: int, h: map<string, int>>>>, _corrupt_record string"
)


@pytest.fixture
def schema(spark: SparkSession) -> StructType:
    return struct(SCHEMA)


def struct(text: str) -> StructType:
    """Return the schema that the text says; it needs a session."""
    found = _parse_datatype_string(text)
    assert isinstance(found, StructType)
    return found


def rows_of(schema: StructType, **options: Any) -> Rows:
    reading = Reading.of({"queue": "jobs", **{k: str(v) for k, v in options.items()}})
    return Rows(columns_of(reading, schema), reading.parsing)


def read(rows: Rows, *bodies: bytes) -> list[dict[str, Any]]:
    """Return the rows of ``bodies``, as one batch."""
    batch = rows.batch(bodies, {}, "here")
    found: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return found


def in_spark(spark: SparkSession, schema: StructType, bodies: list[bytes]) -> list[dict[str, Any]]:
    """Return the result of ``from_json`` for each body."""
    numbered = [(n, body.decode()) for n, body in enumerate(bodies)]
    frame = spark.createDataFrame(numbered, "n int, v string")
    options = {"columnNameOfCorruptRecord": "_corrupt_record"}
    made = frame.select("n", F.from_json("v", schema, options).alias("r")).orderBy("n").collect()
    return [row.r.asDict(recursive=True) for row in made]


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row that can be compared: NaN equals itself, and time zones do not matter."""
    shown = {}
    for name, value in row.items():
        if isinstance(value, float) and math.isnan(value):
            value = "NaN"
        if name == "t" and value is not None:
            value = value.replace(tzinfo=None)
        shown[name] = value
    return shown


#: What Spark's reader takes, and ackq does not.
DEPARTURES = [
    # Spark silently drops data after the first object.
    b'{"s":"a"}}',
    b'{"s":"a"}{"s":"b"}',
    # Single quotes are no JSON; Spark forgives them.
    b"{'s':'a'}",
    # Spark makes a byte of 200 by wrapping it round to -56.
    b'{"y":200}',
    # Half of a surrogate pair is not text; Spark puts a question mark there.
    b'{"s":"\\ud800"}',
    b'{"s":["\\ud800"]}',
    b'{"m":{"\\ud800":1.5}}',
    # Spark drops every comma, so that 1.000,50 is a little more than one.
    b'{"p":"1,000.50"}',
    # No double is as large; Spark makes it infinite.
    b'{"d":1e400}',
    b'{"d":%b}' % (b"1" * 400),
    b'{"d":-%b}' % (b"1" * 400),
    b'{"f":1e39}',
    b'{"f":3.402823567797337e+38}',
    b'{"f":-340282356779733661637539395458142568448}',
    # Spark guesses missing parts; ackq accepts what RFC 3339 writes.
    b'{"day":"2024-1-5"}',
    b'{"day":"2024"}',
    b'{"day":"2024-02-29 junk"}',
    b'{"t":"2024-1-5"}',
    b'{"t":"2024"}',
    b'{"t":"12:30:00"}',
    b'{"t":"2024-02-29T12:30:00 Europe/Berlin"}',
    # Beyond the years that Python has, where Spark wraps round too, to 1969 here.
    b'{"t":9223372036854775807}',
]


def test_each_body_is_read_as_spark_reads_it(spark: SparkSession, schema: StructType) -> None:
    bodies = [body for body in BODIES if body not in DEPARTURES]
    rows = rows_of(schema)
    for body, theirs in zip(bodies, in_spark(spark, schema, bodies), strict=True):
        assert plain(read(rows, body)[0]) == plain(theirs), body


def test_a_body_is_read_the_same_in_any_company(schema: StructType) -> None:
    rows = rows_of(schema)
    bodies = [*BODIES, *WRITTEN]
    alone = [read(rows, body)[0] for body in bodies]
    together = read(rows, *bodies)
    assert list(map(plain, together)) == list(map(plain, alone))


@pytest.mark.parametrize("body", WRITTEN)
def test_a_text_keeps_numbers_as_they_are_written(body: bytes) -> None:
    schema = StructType().add("s", "string").add("l", "long").add("d", "double")
    row = read(rows_of(schema.add("_corrupt_record", "string")), body)[0]
    assert (row["s"], row["_corrupt_record"]) == (WRITTEN[body], None)


def test_where_ackq_departs_from_spark_the_whole_body_is_kept(
    spark: SparkSession, schema: StructType
) -> None:
    rows = rows_of(schema)
    for body, theirs in zip(DEPARTURES, in_spark(spark, schema, DEPARTURES), strict=True):
        assert theirs["_corrupt_record"] is None, body
        row = read(rows, body)[0]
        assert row.pop("_corrupt_record") == body.decode()
        assert set(row.values()) == {None}


def parsed_each(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list to which the bodies will be added that are parsed one by one."""
    bodies: list[bytes] = []
    parse_each = Rows._parse_each

    def note(self: Rows, some: list[bytes], raw: Any) -> Any:
        bodies.extend(some)
        return parse_each(self, some, raw)

    monkeypatch.setattr(Rows, "_parse_each", note)
    return bodies


#: Bodies that fit a schema, none of which has to be parsed by itself.
IN_BULK = {
    "s string, i bigint, a array<bigint>": [
        b'{"i":%d,"s":"x","a":[1],"more":{}}',
        b' {"i":%d}',
        b'{"i":%d}\r\n',
        b'{"i":%d,\n"s":"x"}',
        b'{"i":%d,"ai":"x"}',
    ],
    "i bigint, p decimal(10, 2)": [
        b'{"i":%d,"p":1.23}',
        b'{"i":%d,"p":"-4.565"}',
        b'{"i":%d,"p":7}',
    ],
    "i bigint, t timestamp": [
        b'{"i":%d,"t":"2024-02-28T12:30:00Z"}',
        b'{"i":%d,"t":"2024-07-01 12:30:00"}',
        b'{"i":%d,"t":"2024-07-01T12:30:00.123+02:00"}',
    ],
    "i bigint, t timestamp_ntz, d date": [b'{"i":%d,"t":"2024-02-28T12:30:00","d":"2024-05-31"}'],
}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("schema", IN_BULK)
def test_only_bodies_that_do_not_fit_are_parsed_one_by_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, schema: str, zone: str
) -> None:
    rows = rows_of(struct(f"{schema}, _corrupt_record string"), timeZone=zone)
    bodies = [each % n for n, each in enumerate(100 * IN_BULK[schema])]
    bad = [b"no JSON", b'{"i":"text"}', b'{"i":1.5}', b'{"i":1} {"i":2}', b'{"i":', b'{"i":"\xff"}']
    for at, body in enumerate(bad):
        bodies.insert(7 * at, body)
    single = parsed_each(rows, monkeypatch)
    for _ in range(2):  # the second call knows what the first one found
        found = read(rows, *bodies)
        assert sorted(single) == sorted(bad)
        assert [row["i"] for row in found if row["i"] is not None] == list(
            range(len(bodies) - len(bad))
        )
        shown = [row["_corrupt_record"] for row in found if row["_corrupt_record"]]
        assert shown == [body.decode(errors="replace") for body in bad]
        single.clear()


@pytest.mark.parametrize(
    "bodies",
    [
        # As many objects as bodies, but not one in each.
        [b'{"i":1}{"i":2}', b"", b'{"i":3}'],
        [b'{"i":1}\n{"i":2}', b" ", b'{"i":3}'],
        [b'{"i":', b'1}{"i":2}'],
        [b'{"i":1}', b'{"i":2', b"}", b'{"i":4}{"i":5}'],
    ],
)
def test_bodies_are_never_cut_in_another_place(bodies: list[bytes]) -> None:
    schema = StructType().add("i", "long").add("_corrupt_record", "string")
    whole = {b'{"i":1}': 1, b'{"i":3}': 3}
    for row, body in zip(read(rows_of(schema), *bodies), bodies, strict=True):
        assert row["i"] == whole.get(body)
        assert row["_corrupt_record"] == (None if body in whole else body.decode())


def test_failfast_refuses() -> None:
    schema = StructType().add("i", "long")
    bodies = [b'{"i":1}', b"secret junk", b'{"i":3}']
    with pytest.raises(InvalidMessage, match="here, message 1 of this slice") as raised:
        read(rows_of(schema, mode="FAILFAST"), *bodies)
    assert "junk" not in str(raised.value)


#: Bodies that the parsers and writers in use give up on, each in a way of its own.
HOSTILE = [
    b"",
    b"\xff",
    b"{",
    b'\xef\xbb\xbf{"a":1}',
    b'{"a":"\\ud800"}',
    b'{"a":{"\\ud800":"\\ud800"}}',
    b'{"a":[NaN,123456789012345678901]}',
    b'{"a":' + b"9" * 5000 + b"}",
    b'{"a":"1e999999999999"}',
    b'{"a":1e999999999999}',
    b'{"a":{"\\ud800":1},"b":{"\\ud800":[{"\\ud800":1}]}}',
    *(b'{"a":' + b"[" * deep + b"]" * deep + b"}" for deep in (300, 990, 1020, 100_000)),
    *(b'{"a":' * deep + b"1" + b"}" * deep for deep in (300, 990, 1020, 100_000)),
    b'{"a":"0001-01-01T00:00:00+18:00"}',
    b'{"a":"9999-12-31T23:59:59-18:00"}',
    b'{"a":-9223372036854775808}',
    b'{"a":"\\u0000"}',
]


@pytest.mark.parametrize("column", ["string", "decimal", "map", "timestamp", "struct"])
def test_a_hostile_body_stops_no_query_and_spoils_no_other_row(column: str) -> None:
    kind = {
        "string": StringType(),
        "decimal": DecimalType(38, 10),
        "map": MapType(StringType(), StringType()),
        "timestamp": TimestampType(),
        "struct": StructType().add("a", MapType(StringType(), StringType())),
    }[column]
    schema = StructType().add("a", kind).add("n", "long").add("_corrupt_record", "string")
    bodies = [each for body in HOSTILE for each in (body, b'{"n":1}')]
    rows = rows_of(schema)
    batch = rows.batch(bodies, {}, "here")
    assert batch.num_rows == len(bodies)
    assert batch["n"].to_pylist()[1::2] == [1] * len(HOSTILE)
    shown = batch["_corrupt_record"].to_pylist()
    assert shown[1::2] == [None] * len(HOSTILE)
    strict = rows_of(schema, mode="FAILFAST")
    for body, corrupt in zip(bodies, shown, strict=True):
        assert corrupt in (None, body.decode(errors="replace"))
        if corrupt is not None:
            with pytest.raises(InvalidMessage):
                strict.batch([body], {}, "here")


def is_float(value: float) -> bool:
    """Return whether a float is next to a number as it is written; NaN and infinities are some."""
    return not math.isfinite(value) or Fraction(str(abs(value))) < (2 - Fraction(1, 2**24)) * 2**127


SOAK = float(os.environ.get("ACKQ_SOAK", "1"))
text = st.text(max_size=9)
#: Each type of a column, with fitting values.
FITTING: dict[DataType, st.SearchStrategy[Any]] = {
    StringType(): text | st.integers() | st.lists(text | st.none() | st.integers() | st.floats()),
    BinaryType(): st.sampled_from(["", "AAEC", "AA=="]),
    BooleanType(): st.booleans(),
    ByteType(): st.integers(-(2**7), 2**7 - 1),
    ShortType(): st.integers(-(2**15), 2**15 - 1),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats().filter(is_float) | st.integers(-(2**127), 2**127),
    DoubleType(): st.floats() | st.integers() | st.just("-INF"),
    DecimalType(38, 6): st.integers(-(10**31), 10**31) | st.just("1e-7") | st.floats(-1e9, 1e9),
    DateType(): st.dates().map(str),
    TimestampType(): st.datetimes().map(str) | st.integers(-(10**10), 10**10),
    TimestampNTZType(): st.datetimes().map(str),
}


def holding(
    inner: st.SearchStrategy[tuple[DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[DataType, st.SearchStrategy[Any]]]:
    """Return columns of arrays, maps and structs of others, each with fitting values."""
    return inner.flatmap(
        lambda of: st.sampled_from(
            [
                (ArrayType(of[0]), st.lists(of[1] | st.none(), max_size=3)),
                (MapType(StringType(), of[0]), st.dictionaries(text, of[1], max_size=3)),
                (StructType().add("a", of[0]), st.fixed_dictionaries({}, optional={"a": of[1]})),
            ]
        )
    )


#: Half of them texts, which take whatever there is.
PLAIN = st.sampled_from(list(FITTING.items())) | st.just((StringType(), FITTING[StringType()]))
COLUMNS = st.recursive(PLAIN, holding, max_leaves=3)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(["2024-02-29", "2024-02-29T12:00:00Z", "NaN", "1e99", "AAEC", 10**20]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc") | st.text(st.characters(), max_size=2), inner)
    ),
    max_leaves=9,
)
ODD = (
    st.binary(max_size=30)
    | st.sampled_from(HOSTILE)
    | st.dictionaries(st.sampled_from("ab"), ANYTHING).map(json.dumps).map(str.encode)
    | st.builds(lambda value, cut: json.dumps({"a": value})[:cut].encode(), ANYTHING, st.integers())
)


#: A column with a value that fits it.
FITS = COLUMNS.flatmap(lambda column: st.tuples(st.just(column[0]), column[1]))
OF_FLOAT = StructType().add("a", FloatType())


@settings(max_examples=round(60 * SOAK), suppress_health_check=list(HealthCheck), database=None)
@given(a=FITS, b=FITS, odd=st.lists(ODD, max_size=4), ascii_only=st.booleans())
@example((OF_FLOAT, {"a": 3.4028235677973366e38}), (ArrayType(FloatType()), []), [], True)
@example((OF_FLOAT, {"a": -1e-46}), (FloatType(), -3.4028235677973366e38), [b"{}"], True)
def test_whatever_the_bodies_each_has_a_row_and_those_that_fit_are_not_corrupt(
    a: tuple[DataType, Any], b: tuple[DataType, Any], odd: list[bytes], ascii_only: bool
) -> None:
    schema = StructType().add("a", a[0]).add("b", b[0]).add("_corrupt_record", "string")
    rows = rows_of(schema)
    fits = json.dumps({"a": a[1], "b": b[1]}, ensure_ascii=ascii_only).encode()
    for bodies in ([fits], [*odd, fits], odd):
        batch = rows.batch(bodies, {}, "here")
        assert batch.num_rows == len(bodies)
        shown = batch["_corrupt_record"].to_pylist()
        for corrupt, body in zip(shown, bodies, strict=True):
            assert corrupt is None or (body != fits and corrupt == body.decode(errors="replace"))


#: What times, dates and decimals may look like, besides what `FITTING` has.
TIMES = st.builds(
    "{}{}{}{}".format,
    st.dates().map(str)
    | st.sampled_from(
        [
            "2024-03-31",
            "2024-10-27",
            "2024-02-29",
            "2100-02-28",
            "1900-02-29",
            "2023-02-29",
            "0001-01-01",
            "0000-12-31",
            "2024-04-31",
            "2038-07-01",
            "1945-05-08",
        ]
    ),
    st.sampled_from("T t"),
    st.times().map(str) | st.sampled_from(["02:30:00", "02:00:00.5", "24:00:00", "12:30", "3:00"]),
    st.sampled_from(["", "Z", "+02:00", "-11:30", "+0200", "+15:00", " "]),
)
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False).map(str) | st.builds(
    "{}{}.{}".format,
    st.sampled_from(["", "-", "+", " "]),
    st.integers(0, 10**12) | st.just(""),
    st.integers(0, 10**9) | st.sampled_from(["5", "005", "995", "9999999995", "e", "1e5"]),
)
SIMPLE = (
    TIMES.map(json.dumps)
    | NUMBERS
    | NUMBERS.map(json.dumps)
    | ANYTHING.map(json.dumps)
    | st.dates().map(str).map(json.dumps)
    | st.sampled_from(["99999999.995", "1e7", '"1e7"'])
)
OBJECTS = st.builds('{{"a":{},"b":{}}}'.format, SIMPLE, SIMPLE)
LISTS = st.lists(SIMPLE | OBJECTS, max_size=3).map(lambda values: f"[{','.join(values)}]")
VALUES = SIMPLE | OBJECTS | LISTS
KINDS: list[DataType] = [
    TimestampType(),
    TimestampNTZType(),
    DateType(),
    DecimalType(10, 2),
    DecimalType(38, 6),
    DecimalType(5, 5),
    DecimalType(38, 38),
    LongType(),
    ByteType(),
    StringType(),
    DoubleType(),
    FloatType(),
    StructType().add("a", "integer"),
    ArrayType(StringType()),
    StructType().add("a", DateType()).add("b", LongType()),
    ArrayType(DecimalType(10, 2)),
    ArrayType(StructType().add("a", TimestampType())),
    MapType(StringType(), LongType()),
    MapType(StringType(), StringType()),
    MapType(StringType(), FloatType()),
    MapType(StringType(), ArrayType(LongType())),
]
#: Numbers at, beside and beyond the largest float, and others beside the middle of two.
FLOATS = [
    "3.402823567797337e+38",
    "3.4028235677973366e38",
    "-340282356779733661637539395458142568448",
    "1.00000005960464477539062500001",
    "7.006492321624085354619e-46",
    "9007199791611905.0",
    "1e39",
    "-1e-400",
]


@settings(
    max_examples=round(30 * SOAK),
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=2),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"]),
    values=st.lists(
        st.tuples(VALUES, VALUES, st.sampled_from(["", " ", "\n", "}", "{}"])),
        min_size=1,
        max_size=12,
    ),
    odd=st.lists(ODD, max_size=2),
)
@example(
    kinds=[DoubleType()], zone="UTC", values=[("1", "1", "")], odd=[b'{"a":%s}' % (b"9" * 400)]
)
@example(kinds=[ArrayType(DoubleType())], zone="UTC", values=[("[1e400]", "1", "")], odd=[])
@example(
    kinds=[FloatType(), MapType(StringType(), FloatType())],
    zone="UTC",
    values=[(each, f'{{"k":{each}}}', "") for each in FLOATS],
    odd=[],
)
@example(
    kinds=[FloatType(), OF_FLOAT],
    zone="UTC",
    values=[(each, f'{{"a":{each}}}', "") for each in FLOATS],
    odd=[],
)
def test_bodies_are_read_the_same_in_every_way(
    kinds: list[DataType], zone: str, values: list[tuple[str, str, str]], odd: list[bytes]
) -> None:
    schema = StructType().add("_corrupt_record", "string")
    for name, kind in zip("ab", kinds, strict=False):
        schema = schema.add(name, kind)
    bodies = [f'{{"a":{a},"b": {b}}}{end}'.encode(errors="replace") for a, b, end in values] + odd
    rows, slow = rows_of(schema, timeZone=zone), rows_of(schema, timeZone=zone)
    slow._in_bulk.parse = lambda *_: None  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ackq.spark.rows.unconverted", lambda *_: None)
        expected = shown(slow.batch(bodies, {}, "here"))
    assert shown(slow.batch(bodies, {}, "here")) == expected
    for _ in range(2):
        assert shown(rows.batch(bodies, {}, "here")) == expected


def shown(batch: pa.RecordBatch) -> dict[str, str]:
    """Return the columns as text: NaN equals itself. Python has no time before the year 1."""
    columns = zip(batch.schema, batch.columns, strict=True)
    return {
        field.name: repr(
            (column.cast("int64") if pa.types.is_timestamp(field.type) else column).to_pylist()
        )
        for field, column in columns
    }


def test_a_corrupt_column_may_have_another_name_and_be_alone() -> None:
    schema = StructType().add("bad", "string")
    rows = rows_of(schema, columnNameOfCorruptRecord="bad")
    assert read(rows, b'{"i":1}', b"junk") == [{"bad": None}, {"bad": "junk"}]
    with pytest.raises(ConfigurationError, match="columnNameOfCorruptRecord"):
        rows_of(StructType().add("i", "long"), columnNameOfCorruptRecord="bad")


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"a"}',
        b'{"id":"a\\u0062","n":1}',
        b'{"id":7}',
        b'{"id":""}',
        b'{"id":null}',
        b'{ "id":"a"}',
        b'{"n":1,"id":"b"}',
        b"[]",
        b"",
        b"\xff",
        b'{"id":"\xff"}',
        b'{"id":"a"',
        b'{"id":"' + b"x" * 512 + b'"}',
        b'{"id":"' + b"x" * 513 + b'"}',
        b'{"id":1.0}',
        '{"id":"é"}'.encode(),
        b'{"id":9007199254740993}',
    ],
)
def test_the_id_is_the_one_that_the_queue_goes_by(body: bytes) -> None:
    rows = rows_of(default_schema(Reading.of({"queue": "jobs"})))
    expected = usable_id(body)
    if body == b'{"id":"a"':
        expected = "a"  # the queue looks no further either
    facts = {"queue": "jobs", "batch": 1, "position": None}
    for company in ([], [b'{"id":"z"}'], [b"junk"]):
        found = rows.batch([body, *company], facts, "here").to_pylist()
        assert found[0]["id"] == expected, company


def test_text_that_is_no_utf8_is_shown_and_its_bytes_are_kept() -> None:
    reading = Reading.of({"queue": "jobs", "includeMetadata": "true"})
    rows = rows_of(default_schema(reading), includeMetadata=True)
    found = rows.batch([b"\xffa", b"b"], {"queue": "jobs", "batch": 1}, "here").to_pylist()
    assert [row["value"] for row in found] == ["\ufffda", "b"]
    assert [row["_body"] for row in found] == [b"\xffa", b"b"]


@pytest.mark.parametrize(
    ("column", "nullable", "complaint"),
    [
        ("timestamp_ntz", False, "must be nullable"),
        ("interval day to second", True, "cannot be read from JSON"),
        ("map<int,string>", True, "a map must have string keys"),
    ],
)
def test_a_column_that_cannot_be_filled_is_refused(
    column: str, nullable: bool, complaint: str
) -> None:
    from pyspark.sql.types import DayTimeIntervalType

    kinds: dict[str, DataType] = {
        "timestamp_ntz": TimestampNTZType(),
        "interval day to second": DayTimeIntervalType(),
        "map<int,string>": MapType(IntegerType(), StringType()),
    }
    with pytest.raises(ConfigurationError, match=complaint):
        rows_of(StructType().add("x", kinds[column], nullable))


def test_a_time_zone_is_for_times_that_name_none() -> None:
    schema = StructType().add("t", "timestamp")
    bodies = [b'{"t":"2024-07-01T12:00:00"}', b'{"t":"2024-07-01T12:00:00Z"}']
    hours = [row["t"].hour for row in read(rows_of(schema, timeZone="Europe/Berlin"), *bodies)]
    assert hours == [10, 12]
    assert [row["t"].hour for row in read(rows_of(schema), *bodies)] == [12, 12]
