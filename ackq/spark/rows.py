"""Convert bodies to Arrow: a whole batch if every body fits, otherwise one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql.pandas.types import to_arrow_schema

from ackq.core.ids import usable_id
from ackq.errors import InvalidMessage
from ackq.spark.columns import Columns
from ackq.spark.options import Parsing
from ackq.spark.values import MISFITS, Convert, converter, fitting, parse

#: The id at the position where ackq's producers write it. Escapes are left to the parser.
_FIRST_ID = r'^\{"id":"(?P<id>[^"\\\x00-\x1f]+)"'
_LONGEST_ID = 512
#: A number outside of quotes that the fast parser would round, or read as infinite.
_LONG_NUMBER = r"[:,\[\s]-?(\d{19}|[\d.]+[eE]\+?\d{3})"


class Rows:
    """Makes record batches of one schema."""

    def __init__(self, columns: Columns, parsing: Parsing) -> None:
        self._columns = columns
        self._mode = parsing.mode
        self._schema = to_arrow_schema(columns.schema, timezone="UTC")
        self._parsed = [self._schema.field(field.name) for field in columns.parsed]
        self._by_batch = _ByBatch(self._parsed, parsing.time_zone)
        self._exact = any(map(_has_decimal, columns.parsed))
        self._converters: list[tuple[str, Convert]] = [
            (field.name, converter(field.dataType, parsing.time_zone)) for field in columns.parsed
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
        value = facts.get(fact)
        if isinstance(value, pa.Array):
            return value
        kind = self._schema.field(column).type
        return pa.repeat(pa.scalar(value, kind), len(bodies))

    def _parse(
        self, bodies: Sequence[bytes], raw: pa.Array
    ) -> tuple[dict[str, pa.Array], list[int]]:
        """Return the columns parsed from JSON, and the positions of bodies that did not fit."""
        arrays = self._by_batch.read(bodies, raw)
        if arrays is not None:
            return arrays, []
        values: dict[str, list[Any]] = {name: [] for name, _ in self._converters}
        malformed = {
            position
            for position, (body, exact) in enumerate(zip(bodies, self._exactly(raw), strict=True))
            if not self._parse_one(body, exact, values)
        }
        made = {
            field.name: _column(values[field.name], field.type, malformed) for field in self._parsed
        }
        return made, sorted(malformed)

    def _exactly(self, raw: pa.Array) -> list[bool]:
        """Return which bodies need the slower parser."""
        if self._exact:
            return [True] * len(raw)
        found: list[bool] = pc.match_substring_regex(raw, _LONG_NUMBER).to_pylist()
        return found

    def _parse_one(self, body: bytes, exact: bool, values: dict[str, list[Any]]) -> bool:
        """Append one row; values that do not fit become null, as in Spark's reader."""
        try:
            found, whole = parse(body, exact), True
        except MISFITS:
            found, whole = {}, False
        for name, convert in self._converters:
            value = found.get(name)
            if value is not None:
                value, fits = fitting(convert, value)
                whole = whole and fits
            values[name].append(value)
        return whole


class _ByBatch:
    """Parses a whole batch with Arrow, in C++, if Arrow agrees with Spark's reader on it."""

    def __init__(self, fields: Sequence[pa.Field], zone: str) -> None:
        self._fields = fields
        self._able = all(_arrow_agrees(field.type, zone) for field in fields)
        # Arrow accepts numbers as dates, unlike Spark; but it converts text as Spark does.
        schema = pa.schema(
            [pa.field(f.name, pa.string()) if pa.types.is_date(f.type) else f for f in fields]
        )
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore"
        )

    def read(self, bodies: Sequence[bytes], raw: pa.Array) -> dict[str, pa.Array] | None:
        """Return the columns, or None if a body needs the slower parser."""
        if not self._able or not self._fields or not bodies:
            return None
        # A line that begins and ends so, and there are as many objects as lines: then each line
        # is one object, since no JSON has a line break between braces but outside of all.
        if not pc.all(pc.and_(pc.starts_with(raw, b"{"), pc.ends_with(raw, b"}"))).as_py():
            return None
        lines = b"\n".join(bodies)
        try:
            raw.cast(pa.string())  # Arrow does not check the text of fields outside the schema
            table = pyarrow.json.read_json(
                pa.BufferReader(lines),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                parse_options=self._options,
            )
            if table.num_rows != len(bodies):
                return None
            return {
                field.name: table.column(field.name).combine_chunks().cast(field.type)
                for field in self._fields
            }
        except pa.ArrowInvalid:
            return None


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
        found = pc.struct_field(pc.extract_regex(raw.cast(pa.string()), _FIRST_ID), 0)
    except pa.ArrowInvalid:
        return pa.array(list(map(usable_id, bodies)), pa.string())
    if not found.null_count and _longest(found) <= _LONGEST_ID:
        return found
    quick = found.to_pylist()
    return pa.array(
        [
            each if each is not None and len(each.encode()) <= _LONGEST_ID else usable_id(body)
            for each, body in zip(quick, bodies, strict=True)
        ],
        pa.string(),
    )


def _longest(texts: pa.Array) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _corrupt(bodies: Sequence[bytes], malformed: Sequence[int]) -> pa.Array:
    if not malformed:
        return pa.nulls(len(bodies), pa.string())
    shown: list[str | None] = [None] * len(bodies)
    for position in malformed:
        shown[position] = bodies[position].decode(errors="replace")
    return pa.array(shown, pa.string())


def _arrow_agrees(kind: pa.DataType, zone: str, nested: bool = False) -> bool:
    """Return whether Arrow reads each value of a type as Spark does, or rejects it."""
    deeper = partial(_arrow_agrees, zone=zone, nested=True)
    if pa.types.is_struct(kind):
        return all(deeper(kind.field(at).type) for at in range(kind.num_fields))
    if pa.types.is_list(kind):
        return deeper(kind.value_type)
    if pa.types.is_timestamp(kind):
        return kind.tz is not None and zone == "UTC"
    if pa.types.is_date(kind):
        return not nested
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
    )


def _has_decimal(field: Any) -> bool:
    return "decimal" in field.dataType.simpleString()
