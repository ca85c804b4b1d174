"""Convert parsed JSON values to column values one by one, like Spark's JSON reader."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
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

#: Errors that converters, both parsers and Arrow raise for values that do not fit.
MISFITS = (ValueError, TypeError, ArithmeticError, RecursionError)

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_NOT_FINITE = {
    "NaN": math.nan,
    "+INF": math.inf,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "-INF": -math.inf,
    "-Infinity": -math.inf,
}
#: Digits of integers that may have more than 64 bits.
_LONG = 19
#: A number outside of quotes that the fast parser would not give back as it is written. RE2 can
#: read it, too.
INEXACT_NUMBER = r"[:,\[\s](-?(\d{19}|\d+[.eE])|-0)"
#: Where numbers round to infinity in 32 bits; the number itself does, too.
_TOO_LARGE_FLOAT = (2 - 2**-24) * 2.0**127
_DECIMAL_TEXT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
#: How times are written: as RFC 3339 does, or with less of the time of day. Python and Arrow accept
#: more, each its own, and a number of an invoice is soon a time.
_TIME_TEXT = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ](?:[01]\d|2[0-3])(?::?[0-5]\d(?::?[0-5]\d(?:\.\d+)?)?)?(?:Z|[-+]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_FRACTION = re.compile(r"(\.\d{6})\d+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse(body: bytes, exact: bool) -> dict[str, Any]:
    """Return the object in ``body``.

    Args:
        body: the body of a message.
        exact: keep every digit of numbers.

    Raises:
        MISFITS: the body is not a JSON object, or is nested too deeply.
    """
    parsed = None
    if not exact:
        try:
            parsed = orjson.loads(body)
        except ValueError:
            exact = True  # Spark's reader accepts some values that orjson rejects, such as NaN
    if parsed is None and exact:
        parsed = json.loads(
            body.decode(), parse_float=Written, parse_constant=Written, parse_int=_integer_of
        )
    if not isinstance(parsed, dict):
        raise ValueError("not a JSON object")
    return parsed


def parse_all(bodies: Sequence[bytes], exact: bool) -> list[Any]:
    """Return the object in each body; None for a body that is none. See `parse`."""
    if not exact:
        try:
            values = list(map(orjson.loads, bodies))
        except ValueError:
            pass
        else:
            if set(map(type, values)) == {dict}:
                return values
    return [_object(body, exact) for body in bodies]


def _object(body: bytes, exact: bool) -> dict[str, Any] | None:
    try:
        return parse(body, exact)
    except MISFITS:
        return None


class Written(float):
    """A float that remembers how it is written."""

    text: str

    def __new__(cls, text: str) -> Written:
        made = super().__new__(cls, text)
        made.text = text
        return made


class _Integer(int):
    """An integer that orjson would write otherwise, or not at all."""

    text: str

    def __new__(cls, text: str) -> _Integer:
        made = super().__new__(cls, text)
        made.text = text
        return made


def _integer_of(text: str) -> int:
    return _Integer(text) if text == "-0" or len(text) >= _LONG else int(text)


class Partial(ValueError):
    """A value fits only in part. In ``rest``, the parts that do not fit are null."""

    def __init__(self, rest: Any) -> None:
        super().__init__("fits in part")
        self.rest = rest


def fitting(convert: Convert, value: Any) -> tuple[Any, bool]:
    """Return the part of ``value`` that ``convert`` accepts, and whether all of it fits."""
    if value is None:
        return None, True
    try:
        return convert(value), True
    except Partial as partly:
        return partly.rest, False
    except MISFITS:
        return None, False


def converter(kind: DataType, zone: str) -> Convert:
    """Return a converter to ``kind``. It raises one of MISFITS, or Partial."""
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


def _array(element: Convert, value: Any) -> list[Any]:
    members, whole = _members(element, _expect(value, list))
    if not whole:
        raise Partial(members)
    return members


def _map(convert: Convert, value: Any) -> list[tuple[str, Any]]:
    members, whole = _members(convert, _expect(value, dict).values())
    made = list(zip(value, members, strict=True))
    if not whole:
        raise Partial(made)
    return made


def _struct(fields: dict[str, Convert], value: Any) -> dict[str, Any]:
    _expect(value, dict)
    made, whole = {}, True
    for name, convert in fields.items():
        made[name], fits = fitting(convert, value.get(name))
        whole = whole and fits
    if not whole:
        raise Partial(made)
    return made


def _members(convert: Convert, values: Iterable[Any]) -> tuple[list[Any], bool]:
    """Return the fitting part of each element, and whether all of them fit completely.

    An element that does not fit at all raises, so the whole array or map is lost, as in Spark.
    """
    made, whole = [], True
    for value in values:
        if value is not None:
            try:
                value = convert(value)
            except Partial as partly:
                value, whole = partly.rest, False
        made.append(value)
    return made, whole


def _integer(bound: int, value: Any) -> int:
    if not _is_integer(value) or not -bound <= value < bound:
        raise ValueError("not an integer of this size")
    return int(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _double(value: Any) -> float:
    if isinstance(value, str):
        if value in _NOT_FINITE:
            return _NOT_FINITE[value]
    elif isinstance(value, Written) and value.text[-1].isalpha():
        return value  # NaN and infinities
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(number := float(value)):
            return number
        raise ValueError("too large a number")
    raise ValueError("not a number")


def _float(value: Any) -> float:
    """Return a number that becomes the float next to what is written, as in Spark and in Arrow.

    What is written may lie beside the middle of two floats, and the nearest double on it. So a
    double that is not exact is rounded to an odd last bit, which no middle has.
    """
    number = _double(value)
    if isinstance(value, str) or not math.isfinite(number):
        return number
    written = Decimal(value.text if isinstance(value, Written) else str(value))
    is_even = not struct.pack("<d", number)[0] & 1
    if number and is_even and written != number:
        number = math.nextafter(number, math.inf if written > number else -math.inf)
    if abs(number) >= _TOO_LARGE_FLOAT:
        raise ValueError("too large a number")
    return number


def _decimal(precision: int, scale: int, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("not a decimal")
    text = value.text if isinstance(value, Written) else str(value)
    if not _DECIMAL_TEXT.fullmatch(text):
        raise ValueError("not a decimal")
    number = Decimal(text)
    rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _wide_context)
    if not rounded.is_finite() or len(rounded.as_tuple().digits) > max(precision, scale):
        raise ValueError("too large a decimal")
    return rounded


def _wide() -> Any:
    from decimal import Context

    return Context(prec=400)


_wide_context = _wide()


def _string(value: Any) -> str:
    if isinstance(value, str):
        value.encode()  # reject lone surrogates
        return value
    try:
        return orjson.dumps(value, _number, orjson.OPT_PASSTHROUGH_SUBCLASS).decode()
    except TypeError:  # orjson cannot write integers of more than 64 bits, or deep nesting
        return _string(_slowly(value))


def _slowly(value: Any) -> str:
    write = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return write(value)
    except ValueError:
        return write(_finite(value))


def _finite(value: Any) -> Any:
    """Return ``value`` with a text in place of each number that is not finite."""
    if isinstance(value, float):
        return _finite_number(value)
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return value


def _number(value: Any) -> Any:
    """Return a number as it was written; NaN and infinities in the JSON form that Spark uses."""
    is_written = isinstance(value, Written | _Integer) and value.text[-1].isdigit()
    return orjson.Fragment(value.text.encode()) if is_written else _finite_number(value)


def _finite_number(value: float) -> float | str:
    return value if math.isfinite(value) else json.dumps(value)


def _boolean(value: Any) -> bool:
    return bool(_expect(value, bool))


def _binary(value: Any) -> bytes:
    text = "".join(_expect(value, str).split())  # MIME breaks lines
    return base64.b64decode(text, validate=True)


def _date(value: Any) -> date:
    return moment(_expect(value, str)).date()


def _timestamp(zone: ZoneInfo, value: Any) -> datetime:
    if _is_integer(value):
        return _EPOCH + timedelta(seconds=value)
    time = moment(_expect(value, str))
    return time.replace(tzinfo=zone) if time.tzinfo is None else time


def _naive_timestamp(value: Any) -> datetime:
    time = moment(_expect(value, str))
    if time.tzinfo is not None:
        raise ValueError("has a zone")
    return time


def moment(text: str) -> datetime:
    """Return the time that a text is; digits after the microseconds do not count.

    Raises:
        ValueError: it is not written as `_TIME_TEXT`, or there is no such time.
    """
    text = text.strip().upper()
    if not _TIME_TEXT.fullmatch(text):
        raise ValueError("not a time")
    return datetime.fromisoformat(_FRACTION.sub(r"\1", text))


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"not {kind.__name__}")
    return value


_SIMPLE: dict[type[DataType], Convert] = {
    StringType: _string,
    BooleanType: _boolean,
    BinaryType: _binary,
    FloatType: _float,
    DoubleType: _double,
    DateType: _date,
    TimestampNTZType: _naive_timestamp,
}
