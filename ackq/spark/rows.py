"""Convert bodies to Arrow: in bulk, except for bodies on which Arrow and Spark may not agree."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
)

from ackq.core.creation_time import created_at
from ackq.core.ids import usable_id
from ackq.errors import InvalidMessage
from ackq.spark.columns import Columns
from ackq.spark.formats.misfit import Decode
from ackq.spark.in_bulk import InBulk
from ackq.spark.options import Parsing
from ackq.spark.values import (
    INEXACT_NUMBER,
    MISFITS,
    Convert,
    converter,
    fitting,
    parse,
    parse_all,
)

#: The id at the position where ackq's producers write it. Escapes are left to the parser.
_FIRST_ID = r'^\{"id":"(?P<id>[^"\\\x00-\x1f]+)"'
_MAX_ID = 512
#: Types whose values depend on how a number is written, not only on the double next to it.
_AS_WRITTEN = re.compile("string|float")
#: Range of timestamps in Spark and Python: the years 1 to 9999, in µs since the epoch.
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999


class Rows:
    """Makes record batches of one schema."""

    def __init__(self, columns: Columns, parsing: Parsing) -> None:
        self._columns = columns
        self._mode = parsing.mode
        self._time_field = parsing.time_field
        self._schema = to_arrow_schema(columns.schema, timezone="UTC")
        self._parsed = [self._schema.field(field.name) for field in columns.parsed]
        self._in_bulk = InBulk(self._parsed, parsing.time_zone)
        self._decode = None
        if not parsing.format.is_plain_json:
            self._decode = parsing.format.decoder(columns.parsed)
        self._exact = any(map(_has_decimal, columns.parsed))
        self._converters: list[tuple[str, DataType, Convert]] = [
            (each.name, each.dataType, converter(each.dataType, parsing.time_zone))
            for each in columns.parsed
        ]

    def batch(
        self, bodies: Sequence[bytes], facts: Mapping[str, Any], where: str
    ) -> pa.RecordBatch:
        """Return the rows of ``bodies``. In mode PERMISSIVE no body raises an error.

        Args:
            bodies: one per row.
            facts: the metadata: an array with a value per row, or one value for all rows. An
                ``id`` in it overrides the id in the body.
            where: describes the position of the first body, for errors.

        Raises:
            InvalidMessage: a body does not fit and the mode is FAILFAST.
        """
        raw = pa.array(bodies, pa.binary())
        arrays: dict[str, pa.Array] = {}
        malformed: list[int] = []
        if self._parsed or self._columns.corrupt:
            arrays, malformed = self._parse(bodies, raw)
        if malformed and self._mode == "FAILFAST":
            raise InvalidMessage(
                f"{where}, message {malformed[0]} of this slice does not fit the schema, and mode"
                " is FAILFAST. Mode PERMISSIVE puts such bodies into the column"
                " columnNameOfCorruptRecord"
            )
        for column, fact in self._columns.sourced.items():
            arrays[column] = self._fact(fact, column, raw, bodies, facts)
        if self._columns.corrupt:
            arrays[self._columns.corrupt] = _corrupt(bodies, malformed)
        return pa.RecordBatch.from_arrays(
            [arrays[name] for name in self._schema.names], schema=self._schema
        )

    def _fact(
        self,
        fact: str,
        column: str,
        raw: pa.Array,
        bodies: Sequence[bytes],
        facts: Mapping[str, Any],
    ) -> pa.Array:
        if fact == "body":
            return raw
        if fact == "value":
            return text(raw, bodies)
        if fact == "id" and "id" not in facts:
            return ids(raw, bodies)
        if fact == "time":
            return times(bodies, self._time_field)
        value = facts.get(fact)
        if isinstance(value, pa.Array):
            return value
        kind = self._schema.field(column).type
        return pa.repeat(pa.scalar(value, kind), len(bodies))

    def _parse(
        self, bodies: Sequence[bytes], raw: pa.Array
    ) -> tuple[dict[str, pa.Array], list[int]]:
        """Return the columns parsed from bodies, and the positions of those that did not fit."""
        if self._decode is not None:
            return self._decode_each(bodies, self._decode)
        parsed = self._in_bulk.parse(bodies, raw)
        if parsed is None:
            return self._parse_each(bodies, raw)
        if not parsed.left:
            return parsed.arrays, []
        left = pa.array(parsed.left)
        arrays, malformed = self._parse_each([bodies[at] for at in parsed.left], raw.take(left))
        order = _order(len(bodies), parsed.left)
        for name, values in arrays.items():
            arrays[name] = pa.concat_arrays([parsed.arrays[name], values]).take(order)
        return arrays, [parsed.left[at] for at in malformed]

    def _parse_each(
        self, bodies: Sequence[bytes], raw: pa.Array
    ) -> tuple[dict[str, pa.Array], list[int]]:
        parsed = parse_all(bodies, self._exact)
        malformed = {position for position, each in enumerate(parsed) if each is None}
        objects = [each or {} for each in parsed] if malformed else parsed
        restore = None if self._exact else partial(_restore_digits, objects, bodies, raw)
        return self._convert(objects, malformed, restore)

    def _decode_each(
        self, bodies: Sequence[bytes], decode: Decode
    ) -> tuple[dict[str, pa.Array], list[int]]:
        objects: list[dict[str, Any]] = []
        malformed = set[int]()
        for position, body in enumerate(bodies):
            try:
                objects.append(decode(body))
            except MISFITS:
                objects.append({})
                malformed.add(position)
        return self._convert(objects, malformed, None)

    def _convert(
        self,
        objects: Sequence[dict[str, Any]],
        malformed: set[int],
        restore: Callable[[], None] | None,
    ) -> tuple[dict[str, pa.Array], list[int]]:
        """Return the columns of parsed bodies, and the positions of those that do not fit.

        Args:
            objects: the bodies.
            malformed: the positions of bodies that could not be parsed. Others are added.
            restore: gives numbers in ``objects`` back as they are written; None: they are so.
        """
        arrays = {}
        for (name, kind, convert), field in zip(self._converters, self._parsed, strict=True):
            column = unconverted([each.get(name) for each in objects], kind, field.type)
            if column is None:
                if restore is not None and _AS_WRITTEN.search(kind.simpleString()):
                    restore()
                    restore = None
                values = _converted([each.get(name) for each in objects], convert, malformed)
                column = _column(values, field.type, malformed)
            arrays[name] = column
        return arrays, sorted(malformed)


def _restore_digits(values: list[dict[str, Any]], bodies: Sequence[bytes], raw: pa.Array) -> None:
    """Parse bodies with such numbers again, for types that depend on how they are written."""
    for at in pc.indices_nonzero(pc.match_substring_regex(raw, INEXACT_NUMBER)).to_pylist():
        with suppress(*MISFITS):
            values[at] = parse(bodies[at], exact=True)


def _converted(values: list[Any], convert: Convert, malformed: set[int]) -> list[Any]:
    """Return column values; those that do not fit become null, as in Spark's reader."""
    for position, value in enumerate(values):
        if value is not None:
            values[position], fits = fitting(convert, value)
            if not fits:
                malformed.add(position)
    return values


def _order(rows: int, replaced: Sequence[int]) -> pa.Array:
    """Return the order in which some rows are replaced by those behind the last one."""
    order = _numbers(rows)[:]
    for number, position in enumerate(replaced, rows):
        order[position] = number
    return pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(order)])


@lru_cache(maxsize=4)
def _numbers(rows: int) -> array[int]:
    return array("q", range(rows))


def _column(values: list[Any], kind: pa.DataType, malformed: set[int]) -> pa.Array:
    """Return a column; values that Arrow rejects become null, and their rows ``malformed``."""
    try:
        return pa.array(values, kind)
    except MISFITS:
        for position, value in enumerate(values):
            if not fitting(lambda each: pa.array([each], kind), value)[1]:
                values[position] = None
                malformed.add(position)
        return pa.array(values, kind)


def text(raw: pa.Array, bodies: Sequence[bytes]) -> pa.Array:
    """Return bodies as text, with U+FFFD for invalid UTF-8."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([body.decode(errors="replace") for body in bodies], pa.string())


def ids(raw: pa.Array, bodies: Sequence[bytes]) -> pa.Array:
    """Return the ids in the bodies, null for a body without a usable id."""
    try:
        extracted = pc.struct_field(pc.extract_regex(raw.cast(pa.string()), _FIRST_ID), 0)
    except pa.ArrowInvalid:
        return pa.array(list(map(usable_id, bodies)), pa.string())
    if not extracted.null_count and _longest(extracted) <= _MAX_ID:
        return extracted
    quick = extracted.to_pylist()
    return pa.array(
        [
            each if each is not None and len(each.encode()) <= _MAX_ID else usable_id(body)
            for each, body in zip(quick, bodies, strict=True)
        ],
        pa.string(),
    )


def times(bodies: Sequence[bytes], field: str | None) -> pa.Array:
    """Return the times in the bodies, null for a body without a valid one; see `created_at`."""
    created = (created_at(body, field) for body in bodies)
    micros = [None if each is None else round(each * 1e6) for each in created]
    return pa.array(micros, pa.timestamp("us", "UTC"))


def _longest(texts: pa.Array) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _corrupt(bodies: Sequence[bytes], malformed: Sequence[int]) -> pa.Array:
    if not malformed:
        return pa.nulls(len(bodies), pa.string())
    shown: list[str | None] = [None] * len(bodies)
    for position in malformed:
        shown[position] = bodies[position].decode(errors="replace")
    return pa.array(shown, pa.string())


def _has_decimal(field: Any) -> bool:
    return "decimal" in field.dataType.simpleString()


def timestamp(at: float | None) -> int | None:
    """Return a time in µs; None if it is out of range, since other clients write any number."""
    if at is None or not EARLIEST <= at * 1_000_000 <= LATEST:
        return None
    return round(at * 1_000_000)


#: The type of values that a column takes as they are. A bool is no int here.
_OWN: dict[type[DataType], type] = {
    StringType: str,
    BooleanType: bool,
    FloatType: float,
    DoubleType: float,
    **dict.fromkeys((ByteType, ShortType, IntegerType, LongType), int),
}


def unconverted(values: Sequence[Any], kind: DataType, arrow: pa.DataType) -> pa.Array | None:
    """Return a column of ``values``; None: some of them may need a conversion, or do not fit."""
    try:
        if isinstance(kind, MapType):
            return _maps(values, kind, arrow)
        own = _OWN.get(type(kind))
        if own is None or not _are(own, values):
            return None
        return _floats(values) if isinstance(kind, FloatType) else pa.array(values, arrow)
    except MISFITS:
        return None


def _floats(values: Sequence[float | None]) -> pa.Array | None:
    """Return floats; None: one is too large, or in the middle of two, so its text decides."""
    doubles = pa.array(values, pa.float64())
    floats = doubles.cast(pa.float32())
    nearest = floats.cast(pa.float64())
    rest = pc.subtract(doubles, nearest)
    opposite = pc.add(doubles, rest)
    is_middle = pc.equal(opposite.cast(pa.float32()).cast(pa.float64()), opposite)
    odd = pc.or_(pc.is_inf(floats), pc.and_(is_middle, pc.not_equal(rest, 0.0)))
    return None if pc.any(odd).as_py() else floats


def _are(own: type, values: Iterable[Any]) -> bool:
    return set(map(type, values)) <= {own, type(None)}


def _maps(maps: Sequence[dict[str, Any] | None], kind: MapType, arrow: pa.DataType) -> Any:
    if not _are(dict, maps):
        return None
    whole = [{} if each is None else each for each in maps]
    # These run in C, without a step of Python for each map.
    members = list(chain.from_iterable(map(dict.values, whole)))
    items = unconverted(members, kind.valueType, arrow.item_type)
    if items is None:
        return None
    offsets: list[int | None] = list(accumulate(map(len, whole), initial=0))
    if None in maps:
        for position, each in enumerate(maps):
            if each is None:
                offsets[position] = None
    keys = pa.array(list(chain.from_iterable(whole)), arrow.key_type)
    made = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items)
    return made.cast(arrow)
