"""Parse many bodies at once with Arrow, in C++, and find those on which it may not agree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ackq.spark.bulk_types import bulk_type

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
