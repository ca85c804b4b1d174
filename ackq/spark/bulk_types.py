"""How Arrow reads each type of a column in bulk, and the values on which it may not agree."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc

#: A column as it is wanted, and which of its values need the slower parser; None: none does.
Finished = tuple[pa.Array, pa.Array | None]

#: Days that exist. February 29 is left to the slower parser.
_MONTH_AND_DAY = (
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)"
    r"|(?:0[13578]|1[02])-31)"
)
_TIME = r"[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?"
_OFFSET = r"(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)"
#: Years with four digits, and those for which every implementation has the rules of time zones.
_YEAR, _ZONED_YEAR = r"[1-9]\d{3}", r"(?:19[7-9]\d|20[0-2]\d|203[0-7])"
_DAY = f"^{_YEAR}-{_MONTH_AND_DAY}$"
_NAIVE = f"^{_YEAR}-{_MONTH_AND_DAY}{_TIME}$"
_INSTANT = f"^{_ZONED_YEAR}-{_MONTH_AND_DAY}{_TIME}{_OFFSET}?$"
_ENDS_WITH_OFFSET = f"{_OFFSET}$"
#: Digits of a number that is read into 128 bits; the other 18 are for places that it lacks.
_DIGITS = 20
#: The microseconds that begin the first of those years, and the year after the last one.
_RULES = (0, 2_145_916_800_000_000)
#: The first day or microsecond that Python has.
_FIRST = {
    pa.date32(): -719_162,
    **dict.fromkeys((pa.timestamp("us"), pa.timestamp("us", "UTC")), -719_162 * 86_400_000_000),
}


def _as_it_is(column: pa.Array) -> Finished:
    return column, None


def _finite(numbers: pa.Array) -> Finished:
    """Leave infinities to the slower parser, and zeros with a sign, which -0 does not have in JSON.

    Arrow reads a number that is too large as infinity.
    """
    bits = numbers.type.bit_width
    negative_zero = pc.equal(numbers.view(f"int{bits}"), -(2 ** (bits - 1)))
    odd = pc.or_(pc.is_inf(numbers), negative_zero)
    return numbers, pc.fill_null(odd, False) if pc.any(odd).as_py() else None


@dataclass(frozen=True, slots=True)
class BulkType:
    """How columns of one type are read."""

    #: The type that Arrow's parser is asked for.
    read_as: pa.DataType
    #: The beginning of values that Arrow rejects, as a regular expression of RE2. It may match
    #: others too.
    misfit: str
    finish: Callable[[pa.Array], Finished] = _as_it_is


def bulk_type(kind: pa.DataType, zone: str) -> BulkType | None:
    """Return how to read columns of ``kind``; None: not in bulk.

    Args:
        kind: the type of the column.
        zone: the zone of times without one.
    """
    if pa.types.is_date(kind):
        return BulkType(pa.string(), r'[^"n\s]', _date)
    if pa.types.is_timestamp(kind):
        finish = _naive_time if kind.tz is None else partial(_time, zone)
        return BulkType(pa.string(), r'[^"n\s]', finish)
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return _struct(kind, zone)
    if pa.types.is_list(kind):
        return _list(kind, zone)
    if pa.types.is_floating(kind):
        return BulkType(kind, r"[^-0-9n\s]", _finite)
    misfit = _misfit(kind)
    return None if misfit is None else BulkType(kind, misfit)


def _misfit(kind: pa.DataType) -> str | None:
    """Return what Arrow rejects, for types that it otherwise reads as Spark does."""
    if pa.types.is_integer(kind):
        # As many digits as the largest number has may be too large.
        return rf"[^-0-9n\s]|-?\d*[.eE]|-?\d{{{len(str(2 ** (kind.bit_width - 1) - 1))}}}"
    if pa.types.is_boolean(kind):
        return r"[^tfn\s]"
    return r'[^"n\s]' if pa.types.is_string(kind) else None


def _struct(kind: pa.StructType, zone: str) -> BulkType | None:
    fields = [kind.field(at) for at in range(kind.num_fields)]
    types = [inner for field in fields if (inner := bulk_type(field.type, zone)) is not None]
    if len(types) < len(fields):
        return None
    misfit = r"[^{n\s]"
    if all(inner.finish is _as_it_is for inner in types):
        return BulkType(kind, misfit)

    def finish(column: pa.StructArray) -> Finished:
        done = [inner.finish(column.field(at)) for at, inner in enumerate(types)]
        made = pa.StructArray.from_arrays(
            [array for array, _ in done], fields=fields, mask=column.is_null()
        )
        others = [each for _, each in done if each is not None]
        return made, reduce(pc.or_, others) if others else None

    read_as = [
        pa.field(each.name, inner.read_as) for each, inner in zip(fields, types, strict=True)
    ]
    return BulkType(pa.struct(read_as), misfit, finish)


def _list(kind: pa.ListType, zone: str) -> BulkType | None:
    inner = bulk_type(kind.value_type, zone)
    if inner is None:
        return None
    misfit = r"[^\[n\s]"
    if inner.finish is _as_it_is:
        return BulkType(kind, misfit)

    def finish(column: pa.ListArray) -> Finished:
        values, others = inner.finish(column.values)
        made = pa.ListArray.from_arrays(column.offsets, values, mask=column.is_null())
        if others is None:
            return made, None
        rows = pc.list_parent_indices(column).filter(others)
        return made, pc.is_in(pa.array(range(len(column)), rows.type), rows)

    return BulkType(pa.list_(inner.read_as), misfit, finish)


def _only(texts: pa.Array, pattern: str) -> tuple[pa.Array, pa.Array | None]:
    """Return the texts that match, null for others, and which are others."""
    match = pc.match_substring_regex(texts, pattern)
    if pc.all(match).as_py() is not False:
        return texts, None
    return pc.if_else(match, texts, None), pc.fill_null(pc.invert(match), False)


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return the texts as days or times; None: Arrow rejects one, or there is one before year 1."""
    try:
        texts[:9].cast(kind)  # a cast that fails goes on, and each error takes time
        made = texts.cast(kind)
    except pa.ArrowInvalid:
        return None
    first = pc.min(made)
    return made if not first.is_valid or first.value >= _FIRST[kind] else None


def _date(texts: pa.Array) -> Finished:
    return _plain(texts, pa.date32(), _DAY)


def _naive_time(texts: pa.Array) -> Finished:
    return _plain(texts, pa.timestamp("us"), _NAIVE)


def _plain(texts: pa.Array, kind: pa.DataType, pattern: str) -> Finished:
    if (made := _cast(texts, kind)) is not None:
        return made, None
    plain, others = _only(texts, pattern)
    return plain.cast(kind), others


def _time(zone: str, texts: pa.Array) -> Finished:
    utc = pa.timestamp("us", "UTC")
    if (made := _cast(texts, utc)) is not None:
        return made, None  # all of them name a zone
    naive, elsewhere = pa.timestamp("us"), None
    local = _cast(texts, naive)
    if local is None or not _has_rules(local):
        plain, _ = _only(texts, _INSTANT)
        local = _cast(plain, naive)
        if local is None:  # some name a zone
            zoned = pc.match_substring_regex(plain, _ENDS_WITH_OFFSET)
            local = pc.if_else(zoned, None, plain).cast(naive)
            elsewhere = pc.if_else(zoned, plain, None).cast(utc)
    instants = _in_zone(local, zone).cast(utc)
    if elsewhere is not None:
        instants = pc.coalesce(instants, elsewhere)
    if instants.null_count == texts.null_count:
        return instants, None
    return instants, pc.and_(pc.is_null(instants), pc.is_valid(texts))


def _has_rules(times: pa.Array) -> bool:
    """Return whether every implementation has the rules of time zones for all these times."""
    limits = pc.min_max(times.cast(pa.int64())).as_py()
    return limits["min"] is None or (_RULES[0] <= limits["min"] and limits["max"] < _RULES[1])


def _in_zone(times: pa.Array, zone: str) -> pa.Array:
    """Return local times as instants, null for those that do not exist there."""
    assume = partial(pc.assume_timezone, times, zone, ambiguous="earliest")
    try:
        with suppress(pa.ArrowInvalid):
            return assume(nonexistent="raise")
        # Where these differ the clock was put forward, and the time does not exist.
        first, last = assume(nonexistent="earliest"), assume(nonexistent="latest")
    except pa.ArrowInvalid:  # a zone that only Python knows
        return pa.nulls(len(times), pa.timestamp("us", zone))
    return pc.if_else(pc.equal(first, last), first, None)


def _decimal(precision: int, scale: int) -> BulkType:
    """Read more digits than the type has, then round as Spark does; Arrow would reject them.

    Arrow limits the digits of a number to the precision, then multiplies it with ten to the power
    of the scale, and does not notice if the result wraps round. So the sum of both is limited.
    """
    if precision <= _DIGITS and scale <= 38 - _DIGITS:
        digits, places, read_as, exact = _DIGITS, 38 - _DIGITS, pa.decimal128, pa.decimal128(38, 18)
    else:
        digits, places, read_as, exact = 38, 38, pa.decimal256, pa.decimal256(76, 38)
    largest = pa.scalar(Decimal(f"{'9' * (precision - scale)}.{'9' * scale}"), exact)

    def finish(numbers: pa.Array) -> Finished:
        numbers = numbers.cast(exact)
        large = pc.greater(pc.abs(numbers), largest)
        others = pc.fill_null(large, False) if pc.any(large).as_py() else None
        if others is not None:
            numbers = pc.if_else(large, None, numbers)
        rounded = pc.round(numbers, scale, "half_towards_infinity")
        return rounded.cast(pa.decimal128(precision, scale)), others

    misfit = rf'[^-0-9n"\s]|"[^-+.0-9]|"?-?(?:\d{{{digits + 1}}}|\d*\.\d{{{places + 1}}})'
    return BulkType(read_as(digits, places), misfit, finish)
