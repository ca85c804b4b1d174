"""Infer the schema of messages from a sample of them, without Spark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from ackq.spark.formats.body_format import BodyFormat
from ackq.spark.formats.misfit import Decode
from ackq.spark.values import MISFITS, moment, parse

#: A type: a name of SQL, the fields of a struct, the elements of an array, or None for only nulls.
Inferred: TypeAlias = "str | dict[str, Inferred] | list[Inferred] | None"

#: Values of a Spark BIGINT.
_BIGINT = range(-(2**63), 2**63)
#: Largest integer up to which a DOUBLE has each, and the type of larger ones that a BIGINT has.
_EXACT, _LARGE = 2**53, "BIGINT, NO DOUBLE"
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class SchemaSample:
    """The schema of a sample."""

    #: Returns the fields of a body.
    decode: Decode
    #: Messages, and how many of them are not of the format.
    messages: int = 0
    malformed: int = 0
    types: dict[str, Inferred] = field(default_factory=dict)
    #: In how many messages each column is present and not null.
    present: Counter[str] = field(default_factory=Counter)

    def add(self, body: bytes) -> None:
        """Count a message."""
        self.messages += 1
        try:
            fields = self.decode(body)
        except MISFITS:
            self.malformed += 1
            return
        self.present.update(name for name, value in fields.items() if value is not None)
        self.types = _merge_fields(self.types, {name: _type(each) for name, each in fields.items()})

    @property
    def ddl(self) -> str:
        """The columns as DDL, in the order in which they were first seen."""
        return ",\n".join(f"{_quoted(name)} {_sql(kind)}" for name, kind in self._columns())

    @property
    def not_null(self) -> list[str]:
        """The columns that all messages have."""
        whole = self.messages - self.malformed
        return [name for name, _ in self._columns() if whole and self.present[name] == whole]

    def _columns(self) -> Iterator[tuple[str, Inferred]]:
        """Yield the columns. Names of Spark ignore case, so only the first of equal ones counts."""
        seen = set[str]()
        for name, kind in self.types.items():
            if name.lower() not in seen:
                seen.add(name.lower())
                yield name, kind


def infer(bodies: Iterable[bytes], body_format: BodyFormat | None = None) -> SchemaSample:
    """Return the schema that fits all of ``bodies`` that are of their format.

    Texts that are all dates or all times become DATE or TIMESTAMP. Integers become BIGINT, other
    numbers DOUBLE. Values of different types become STRING, and so do numbers of which a DOUBLE
    would change one.

    Args:
        bodies: of messages.
        body_format: has names for the columns. Defaults to JSON.
    """
    json = partial(parse, exact=False)  # a number's own digits do not matter
    sample = SchemaSample(json if body_format is None else body_format.decoder(()))
    for body in bodies:
        sample.add(body)
    return sample


def _type(value: Any) -> Inferred:
    if value is None or isinstance(value, bool):
        return None if value is None else "BOOLEAN"
    if isinstance(value, int):
        if abs(value) <= _EXACT:
            return "BIGINT"
        return _LARGE if value in _BIGINT else "STRING"
    if isinstance(value, float):
        return "DOUBLE"
    if isinstance(value, str):
        return _type_of_text(value)
    if isinstance(value, Mapping):
        return {name: _type(each) for name, each in value.items()}
    element: Inferred = None
    for each in value:
        element = _merge(element, _type(each))
    return [element]


def _type_of_text(text: str) -> str:
    is_day = len(text) == 10
    if text[4:5] != "-" or not (is_day or ":" in text):  # a cheap test, which most texts fail
        return "STRING"
    try:
        moment(text)
    except ValueError:
        return "STRING"
    return "DATE" if is_day else "TIMESTAMP"


def _merge(one: Inferred, other: Inferred) -> Inferred:
    if one is None or one == other:
        return other
    if other is None:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        return _merge_fields(one, other)
    if isinstance(one, list) and isinstance(other, list):
        return [_merge(one[0], other[0])]
    if isinstance(one, str) and isinstance(other, str):
        if {one, other} == {"BIGINT", "DOUBLE"}:
            return "DOUBLE"
        if {one, other} == {"BIGINT", _LARGE}:
            return _LARGE
        if {one, other} == {"DATE", "TIMESTAMP"}:
            return "TIMESTAMP"
    return "STRING"


def _merge_fields(one: dict[str, Inferred], other: dict[str, Inferred]) -> dict[str, Inferred]:
    return one | {name: _merge(one.get(name), kind) for name, kind in other.items()}


def _sql(kind: Inferred) -> str:
    if kind is None or kind == {}:
        return "STRING"
    if isinstance(kind, list):
        return f"ARRAY<{_sql(kind[0])}>"
    if isinstance(kind, dict):
        return f"STRUCT<{', '.join(f'{_quoted(name)}: {_sql(kind[name])}' for name in kind)}>"
    return "BIGINT" if kind == _LARGE else kind


def _quoted(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name
    return "`" + name.replace("`", "``") + "`"
