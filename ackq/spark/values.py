"""From a parsed JSON value to a value of a column, one by one, as Spark's JSON reader does it."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import orjson
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
)

Convert = Callable[[Any], Any]

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_NOT_FINITE = {
    "NaN": math.nan, "INF": math.inf, "+INF": math.inf, "Infinity": math.inf,
    "+Infinity": math.inf, "-INF": -math.inf, "-Infinity": -math.inf,
}  # fmt: skip
_FRACTION = re.compile(r"(\.\d{6})\d+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse(body: bytes, exact: bool) -> dict[str, Any]:
    """Return the object in ``body``.

    Args:
        body: what was pushed.
        exact: read fractions as decimals, every digit of them.

    Raises:
        ValueError: it is no JSON object. RecursionError: it is nested too deep.
    """
    parsed = None
    if not exact:
        try:
            parsed = orjson.loads(body)
        except ValueError:
            exact = True  # what orjson refuses, such as NaN, Spark's reader may take
    if parsed is None and exact:
        parsed = json.loads(body.decode(), parse_float=_Fraction)
    if not isinstance(parsed, dict):
        raise ValueError("not a JSON object")
    return parsed


class _Fraction(float):
    """A float that remembers its digits."""

    text: str

    def __new__(cls, text: str) -> _Fraction:
        made = super().__new__(cls, text)
        made.text = text
        return made


def converter(kind: DataType, zone: str) -> Convert:
    """Return what makes values of ``kind``; it raises ValueError or OverflowError on others."""
    if isinstance(kind, ArrayType):
        return partial(_array, converter(kind.elementType, zone))
    if isinstance(kind, MapType):
        return partial(_map, converter(kind.valueType, zone))
    if isinstance(kind, StructType):
        return partial(_struct, {each.name: converter(each.dataType, zone) for each in kind.fields})
    if type(kind) in _BITS:
        return partial(_integer, 1 << (_BITS[type(kind)] - 1))
    if isinstance(kind, DecimalType):
        return partial(_decimal, kind.precision, kind.scale)
    if isinstance(kind, TimestampType):
        return partial(_timestamp, ZoneInfo(zone))
    return _SIMPLE[type(kind)]


def _nullable(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _array(element: Convert, value: Any) -> list[Any]:
    _expect(value, list)
    return [_nullable(element, each) for each in value]


def _map(convert: Convert, value: Any) -> list[tuple[str, Any]]:
    _expect(value, dict)
    return [(key, _nullable(convert, each)) for key, each in value.items()]


def _struct(fields: dict[str, Convert], value: Any) -> dict[str, Any]:
    _expect(value, dict)
    return {name: _nullable(convert, value.get(name)) for name, convert in fields.items()}


def _integer(bound: int, value: Any) -> int:
    if type(value) is not int or not -bound <= value < bound:
        raise ValueError("not an integer of this size")
    return value


def _float(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, value)
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    raise ValueError("not a number")


def _decimal(precision: int, scale: int, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("not a decimal")
    try:
        number = Decimal(value.text if isinstance(value, _Fraction) else str(value))
        rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _wide_context)
    except InvalidOperation:
        raise ValueError("not a decimal") from None
    if not rounded.is_finite() or len(rounded.as_tuple().digits) > max(precision, scale):
        raise ValueError("too large a decimal")
    return rounded


def _wide() -> Any:
    from decimal import Context

    return Context(prec=400)


_wide_context = _wide()


def _string(value: Any) -> str:
    if isinstance(value, str):
        value.encode()  # a lone surrogate is no text
        return value
    return orjson.dumps(value, default=float).decode()


def _boolean(value: Any) -> bool:
    return bool(_expect(value, bool))


def _binary(value: Any) -> bytes:
    try:
        return base64.b64decode(_expect(value, str), validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None


def _date(value: Any) -> date:
    text = _expect(value, str).strip()
    return date.fromisoformat(text) if len(text) == 10 else _moment(text).date()


def _timestamp(zone: ZoneInfo, value: Any) -> datetime:
    if type(value) is int:
        return _EPOCH + timedelta(seconds=value)
    moment = _moment(_expect(value, str))
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment


def _naive_timestamp(value: Any) -> datetime:
    moment = _moment(_expect(value, str))
    if moment.tzinfo is not None:
        raise ValueError("has a zone")
    return moment


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(_FRACTION.sub(r"\1", text.strip()))


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"not {kind.__name__}")
    return value


_SIMPLE: dict[type[DataType], Convert] = {
    StringType: _string,
    BooleanType: _boolean,
    BinaryType: _binary,
    FloatType: _float,
    DoubleType: _float,
    DateType: _date,
    TimestampNTZType: _naive_timestamp,
}
