"""Convert values of a column to JSON values, like Spark's ``to_json``."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson
from pyspark.sql import types as spark

from ackq.errors import ConfigurationError

#: Number types that may contain values without a JSON form.
FLOATING = (spark.FloatType, spark.DoubleType)
_AS_THEY_ARE = (
    spark.StringType,
    spark.CharType,
    spark.VarcharType,
    spark.BooleanType,
    spark.IntegralType,
    spark.DateType,
    spark.TimestampType,
    spark.TimestampNTZType,
    spark.NullType,
)
Convert = Callable[[Any], Any]


def converter(name: str, kind: spark.DataType) -> Convert | None:
    """Return a converter of a column's values, like Spark's to_json; None if orjson suffices.

    Raises:
        ConfigurationError: the type has no JSON form.
    """
    if isinstance(kind, _AS_THEY_ARE) or type(kind).__name__ == "TimeType":
        return None
    if isinstance(kind, FLOATING):
        return _number
    if isinstance(kind, spark.DecimalType):
        return _exact
    if isinstance(kind, spark.BinaryType):
        return lambda value: base64.b64encode(value).decode()
    if isinstance(kind, spark.ArrayType):
        inner = _optional(converter(name, kind.elementType))
        return inner and (lambda values: [inner(value) for value in values])
    if isinstance(kind, spark.MapType):
        keep = _optional(converter(name, kind.valueType)) or (lambda value: value)
        return lambda pairs: {_key(key): keep(value) for key, value in pairs}
    if isinstance(kind, spark.StructType):
        return _struct(name, kind)
    raise ConfigurationError(
        f"column {name!r} is {kind.simpleString()}, which has no JSON form: cast it, or drop it"
    )


def _struct(name: str, kind: spark.StructType) -> Convert | None:
    optional = {field.name: _optional(converter(name, field.dataType)) for field in kind.fields}
    converters = {each: convert for each, convert in optional.items() if convert}
    if not converters:
        return None
    return lambda fields: (
        fields | {each: convert(fields[each]) for each, convert in converters.items()}
    )


def _optional(convert: Convert | None) -> Convert | None:
    return convert and (lambda value: None if value is None else convert(value))


def _number(value: float) -> float | str:
    # The text that Spark writes for numbers that JSON cannot express.
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _exact(value: Decimal) -> orjson.Fragment:
    return orjson.Fragment(f"{value:f}".encode())


def _key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
