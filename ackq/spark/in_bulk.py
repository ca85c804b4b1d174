"""Parse many bodies at once with Arrow, in C++, and find those on which it may not agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

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


#: What Arrow gets in place of a body that it shall not see: a row of nulls.
_BLANK = b"{}"
_WHITESPACE = b" \t\r\n"
#: The end of Arrow's message for a body that is no JSON, or has a value of another kind.
_IN_ROW = re.compile(r" in row (\d+)$")
#: The part of this message that names a column of the schema.
_OF_COLUMN = re.compile(r"Column\(/(.*)\) changed from ")
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)
#: Attempts that may fail for the bodies of one call. What is undecided then is left over.
_FAILURES = 12
#: A scan that suspects a larger share of the bodies is of no use.
_MAX_SUSPECTS = 0.5


@dataclass(frozen=True, slots=True)
class Scan:
    """Regular expressions of RE2 that match bodies which Arrow may reject."""

    exact: str
    #: Matches all bodies that ``exact`` matches, perhaps others, and takes less time.
    coarse: str


#: Finds bodies that may hold two objects.
_TWO = Scan(r"\}\s*\{", r"\}\s*\{")


@dataclass(frozen=True, slots=True)
class Parsed:
    """Columns, and the rows that are left to the slower parser."""

    arrays: dict[str, pa.Array]
    left: list[int]


class InBulk:
    """Parses bodies of one schema in bulk.

    Arrow parses bodies either all together or not at all. So those that make it fail are searched
    for, by a scan and by Arrow's messages, and replaced by blanks. A wrong guess costs only time,
    since the slower parser reads any body.
    """

    def __init__(self, fields: Sequence[pa.Field], zone: str) -> None:
        types = [(field, bulk_type(field.type, zone)) for field in fields]
        self._columns = [(field, bulk) for field, bulk in types if bulk is not None]
        self._able = bool(fields) and len(self._columns) == len(fields)
        schema = pa.schema([pa.field(field.name, bulk.read_as) for field, bulk in self._columns])
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore"
        )
        self._misfits = {field.name: bulk.misfit for field, bulk in self._columns}
        #: Scans that found bodies in the last call, so the next call begins with them.
        self._scans: list[Scan] = []

    def parse(self, bodies: Sequence[bytes], raw: pa.Array) -> Parsed | None:
        """Return the columns of some bodies; None: Arrow cannot read a column of this schema."""
        if not self._able or not bodies:
            return None
        search = _Search(bodies, raw)
        for scan in self._scans:
            search.scan(scan)
        table = self._read(search)
        self._scans = search.useful
        arrays = {}
        for field, bulk in self._columns:
            column = table.column(field.name).combine_chunks()
            column, others = bulk.finish(column)
            arrays[field.name] = column.cast(field.type)
            if others is not None:
                search.left.update(pc.indices_nonzero(others).to_pylist())
        return Parsed(arrays, sorted(search.left))

    def _read(self, search: _Search) -> pa.Table:
        """Parse all lines that are left in; leave out those that fail."""
        parts: list[pa.Table] = []
        ranges, failures = [(0, len(search.lines))], 0
        while ranges:
            first, stop = ranges.pop()
            try:
                parts.append(self._attempt(search.lines[first:stop]))
                continue
            except _Miscounted:
                matched, scans = None, [_TWO]
            except pa.ArrowInvalid as error:
                matched = _IN_ROW.search(str(error))
                scans = self._suspects(str(error), search.lines[0])
            failures += 1
            if any(map(search.scan, scans)):
                ranges.append((first, stop))
            elif failures > _FAILURES or stop - first == 1:
                search.leave(range(first, stop))
                ranges.append((first, stop))
            else:
                cut = (first + stop) // 2
                if matched:
                    cut = min(first + int(matched[1]), stop - 1)
                    search.leave((cut,))
                    cut = min(cut + 1, stop - 1)
                ranges += [(cut, stop), (first, cut)]
        return pa.concat_tables(parts)

    def _suspects(self, error: str, sample: bytes) -> list[Scan]:
        """Return scans for bodies that may cause the error: of one column, then of all."""
        misfits = [
            f'{re.escape(name)}"\\s*:\\s*(?:{misfit})' for name, misfit in self._misfits.items()
        ]
        whole = f'"(?:{"|".join(misfits)})'
        column = _OF_COLUMN.search(error)
        misfit = self._misfits.get(column[1]) if column else None
        one = [] if column is None or misfit is None else [_scan_of(column[1], misfit, sample)]
        return [*one, Scan(whole, whole)]

    def _attempt(self, lines: Sequence[bytes]) -> pa.Table:
        """Parse lines that each begin and end with a brace.

        If there are as many objects as lines, each line is one object, since no JSON has a line
        break between braces but outside of all.
        """
        text = b"\n".join(lines)
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=self._options,
        )
        if table.num_rows != len(lines):
            raise _Miscounted
        return table


def _scan_of(name: str, misfit: str, sample: bytes) -> Scan:
    """Return a scan for misfits of one column.

    RE2 jumps from one first character of its pattern to the next. Quotes are frequent, so the
    coarse pattern begins with the rarest character of the name.
    """
    first = 0
    if _PLAIN_NAME.fullmatch(name):
        first = min(range(len(name)), key=lambda at: sample.count(name[at].encode()))
    rest = rf'"\s*:\s*(?:{misfit})'
    exact = f'"{re.escape(name)}{rest}'
    return Scan(exact, f"{name[first:]}{rest}" if _PLAIN_NAME.fullmatch(name) else exact)


class _Miscounted(Exception):
    """There are more or fewer objects than lines."""


class _Search:
    """Bodies as lines for Arrow. Those that are left to the slower parser are blank."""

    def __init__(self, bodies: Sequence[bytes], raw: pa.Array) -> None:
        self.lines = list(bodies)
        self.left: set[int] = set()
        #: The scans that found bodies to leave out.
        self.useful: list[Scan] = []
        self._raw = raw
        self._scanned: set[Scan] = set()
        try:
            raw.cast(pa.string())  # Arrow does not check the text of fields outside the schema
        except pa.ArrowInvalid:
            self.leave(at for at, body in enumerate(bodies) if not _is_text(body))
        braced = pc.and_(pc.starts_with(raw, b"{"), pc.ends_with(raw, b"}"))
        if not pc.all(braced).as_py():
            self._trim(pc.indices_nonzero(pc.invert(braced)).to_pylist())

    def scan(self, scan: Scan) -> bool:
        """Leave out the bodies that match; return whether any was left out for the first time."""
        if scan in self._scanned:
            return False
        self._scanned.add(scan)
        match = pc.indices_nonzero(pc.match_substring_regex(self._raw, scan.coarse))
        if scan.coarse != scan.exact:
            match = match.filter(pc.match_substring_regex(self._raw.take(match), scan.exact))
        suspects = set(match.to_pylist()) - self.left
        if not 0 < len(suspects) <= _MAX_SUSPECTS * len(self.lines):
            return False
        self.leave(suspects)
        self.useful.append(scan)
        return True

    def _trim(self, positions: Iterable[int]) -> None:
        for at in positions:
            line = self.lines[at] = self.lines[at].strip(_WHITESPACE)
            if line[:1] != b"{" or line[-1:] != b"}":
                self.leave((at,))

    def leave(self, positions: Iterable[int]) -> None:
        """Leave out some lines."""
        for at in positions:
            self.lines[at] = _BLANK
            self.left.add(at)


def _is_text(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
