"""Arguments as a worker reads them, compared with what was pushed: value and type."""

from __future__ import annotations

import dataclasses
import marshal
from collections.abc import Callable, Hashable
from datetime import datetime, time
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, cast, get_args, get_origin

from ackq.core.json_values import step

#: The deepest nesting of arguments. Readers of JSON stop at depths from 200 on.
MAX_DEPTH = 100
#: Why arguments are refused that are nested more deeply.
TOO_DEEP = f"nested too deeply: at most {MAX_DEPTH} levels"
#: Types of JSON whose equal values are the same.
_PLAIN = frozenset({str, int, bool, type(None)})
#: Annotations of values that any JSON may be, or of which any JSON may be a part.
_UNTYPED = frozenset({Any, dict, list, str})
#: Where a value differs, as the rest of its path, and how.
Difference = tuple[str, str]
_CHANGED: Difference = ("", "arrives with another value: its type does not read what it writes")


def is_untyped(kind: Any) -> bool:
    """Return whether JSON decides what is read as this type, as for ``dict[str, Any]``."""
    return (get_origin(kind) or kind) in _UNTYPED and all(map(is_untyped, get_args(kind)))


def is_same(given: Any, read: Any, written: bytes) -> bool:
    """Return whether a value is the same as what was read of it. False: perhaps; look closer.

    Args:
        given: what was pushed.
        read: what was read, as a type that `is_untyped`.
        written: JSON that holds the value.
    """
    # Each level has two brackets.
    shallow = len(written) <= 2 * MAX_DEPTH or sum(map(written.count, b"[{")) <= MAX_DEPTH
    try:
        # Marshal refuses subclasses, and whatever else may be equal to a value of another type.
        marshal.dumps(given, 2)
    except ValueError:
        return False
    return bool(shallow and given == read)


def difference(given: Any, read: Any, depth: int = 0) -> Difference | None:
    """Return the first difference between a value and what a worker reads of it, or None.

    An integer for a ``float`` is the same as the float.
    """
    kind, other = type(given), type(read)
    if kind is other:
        if kind in _PLAIN or (kind is float and given):  # unlike 0.0 and -0.0
            return None if given == read else _CHANGED
        if depth >= MAX_DEPTH:
            return "", f"is {TOO_DEEP}"
        return _compare_of(cast(Hashable, kind))(given, read, depth + 1)
    if kind is int and other is float and given == read:
        return None
    return "", (
        f"is of type {kind.__name__}, and arrives as {other.__name__}: annotate the type that you"
        " push, or push the type that arrives"
    )


@lru_cache(1000)
def _compare_of(kind: Any) -> Callable[[Any, Any, int], Difference | None]:
    """Return the comparison of two values of a type."""
    if issubclass(kind, dict):
        return _compare_mappings
    if issubclass(kind, list | tuple):
        return _compare_sequences
    if issubclass(kind, set | frozenset):
        return _compare_sets
    if issubclass(kind, datetime | time):
        return _compare_times
    if dataclasses.is_dataclass(kind):
        return partial(_compare_records, [field.name for field in dataclasses.fields(kind)])
    if hasattr(kind, "__struct_fields__"):
        return partial(_compare_records, kind.__struct_fields__)
    if hasattr(kind, "__attrs_attrs__"):
        return partial(_compare_records, [field.name for field in kind.__attrs_attrs__])
    if hasattr(kind, "model_fields"):
        hidden = ("__pydantic_extra__", "__pydantic_private__")
        return partial(_compare_records, [*kind.model_fields, *hidden])
    if issubclass(kind, float | Decimal):  # -0.0, and the digits of 1.50
        return lambda given, read, _: None if str(given) == str(read) else _CHANGED
    return lambda given, read, _: None if given == read else _CHANGED


def _compare_mappings(given: Any, read: Any, depth: int) -> Difference | None:
    if len(given) != len(read):
        lost = next((name for name in given if name not in read), None)
        return (
            _CHANGED if lost is None else (step(lost), "does not arrive: its type has no such key")
        )
    for (name, value), (read_name, other) in zip(given.items(), read.items(), strict=True):
        kind = type(name)
        plain = kind is str is type(read_name) and name == read_name
        if not plain and difference(name, read_name, depth):
            return step(name), f"has a name of type {kind.__name__}, which arrives as another"
        kind = type(value)
        if kind in _PLAIN and kind is type(other) and value == other:
            continue
        if found := difference(value, other, depth):
            return step(name) + found[0], found[1]
    return None


def _compare_sequences(given: Any, read: Any, depth: int) -> Difference | None:
    kinds = set(map(type, given))
    if kinds <= _PLAIN and given == read and [*map(type, given)] == [*map(type, read)]:
        return None
    for at, (value, other) in enumerate(zip(given, read, strict=True)):
        if found := difference(value, other, depth):
            return step(at) + found[0], found[1]
    return None


def _compare_sets(given: Any, read: Any, depth: int) -> Difference | None:
    its = {each: each for each in read}
    if given != read:
        return _CHANGED
    return next((found for each in given if (found := difference(each, its[each], depth))), None)


def _compare_times(given: Any, read: Any, _: int) -> Difference | None:
    if given.replace(tzinfo=None) != read.replace(tzinfo=None):
        return _CHANGED
    zone = given.tzinfo
    if zone is read.tzinfo is None:
        folded = "is the second of two equal local times: push it with a zone"
        return None if given.fold == read.fold else ("", folded)
    # Only a fixed offset is known without a date.
    if zone and read.tzinfo and zone.utcoffset(None) == read.utcoffset():
        return None
    return "", (
        f"has the zone {zone}, and arrives with an offset only: push value.astimezone(UTC), and"
        " the name of the zone as text if the task needs it"
    )


def _compare_records(names: Any, given: Any, read: Any, depth: int) -> Difference | None:
    for name in names:
        value, other = getattr(given, name, None), getattr(read, name, None)
        if (value is not other or type(value) not in _PLAIN) and (
            found := difference(value, other, depth)
        ):
            return step(name) + found[0], found[1]
    return None
