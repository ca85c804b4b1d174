"""Values as JSON and back: records of other libraries, and advice for values that JSON lacks."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
import sys
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, ClassVar, Protocol

import orjson

#: A name that a path shows as it is; others are quoted.
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: Types of values that never contain a number without a form in JSON.
_SAFE = frozenset({str, int, bool, type(None)})
#: What to push instead of a value of these types.
_INSTEAD: tuple[tuple[type | tuple[type, ...], str], ...] = (
    ((set, frozenset), "a list, as in sorted(value)"),
    (Decimal, "text, as in str(value), which keeps every digit"),
    ((bytes, bytearray, memoryview), "text: value.decode(), or Base64 for binary data"),
    (timedelta, "seconds, as in value.total_seconds()"),
    (tuple, "a list or a dict, as in list(value)"),  # a subclass, such as a NamedTuple
    ((complex, PurePath), "text, as in str(value)"),
)


class Dataclass(Protocol):
    """An object whose class has the decorator ``dataclass``."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class PydanticModel(Protocol):
    """A model of pydantic 2, or any other object with its ``model_dump``."""

    def model_dump(self, *, mode: str) -> Any:
        """Return the fields; in the mode "json", as values that JSON can hold."""


class MsgspecStruct(Protocol):
    """A ``Struct`` of msgspec."""

    __struct_fields__: ClassVar[tuple[str, ...]]


#: An object with named fields, which becomes a JSON object.
Record = Dataclass | PydanticModel | MsgspecStruct


def is_record(value: Any) -> bool:
    """Return whether this is a dataclass, a model of pydantic or a struct of msgspec."""
    kind = type(value)
    return not isinstance(value, type) and (
        dataclasses.is_dataclass(kind)
        or hasattr(kind, "model_dump")
        or hasattr(kind, "__struct_fields__")
    )


def fields_of(record: Any) -> Any:
    """Return the fields of a record as a dict; a model or struct may be something else in JSON."""
    if dataclasses.is_dataclass(record):
        return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    if hasattr(record, "model_dump"):
        return record.model_dump(mode="json")
    return sys.modules["msgspec"].to_builtins(record)  # loaded, since it made the struct


def to_json(value: Any) -> bytes:
    """Return ``value`` as JSON. Records in it become objects.

    orjson writes NaN and infinity as null, which would change the message. To detect this, only
    values whose JSON contains ``null`` are searched, so others cost only the search for that word.

    Raises:
        orjson.JSONEncodeError: a TypeError: a value that JSON cannot hold; names it by its path.
    """
    try:
        body = orjson.dumps(value, _other)
    except TypeError as error:
        raise orjson.JSONEncodeError(_refusal(value) or str(error)) from error
    if body.count(b"null") and (text := not_finite(value)) is not None:
        raise orjson.JSONEncodeError(text)
    return body


def from_json(body: bytes, label: str) -> Any:
    """Return a body parsed as JSON by orjson, which turns integers over 64 bits into floats.

    Raises:
        orjson.JSONDecodeError: the body is not JSON (a ValueError). The error does not show it.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        text = f"the body of message {label!r} is not JSON: read its bytes from body. {error.msg}"
        raise orjson.JSONDecodeError(text, error.doc, error.pos) from None


def not_finite(value: Any) -> str | None:
    """Return an error's text if a number in ``value`` is NaN or infinite, else None."""
    place = _non_finite(value)
    if place is None:
        return None
    path, number = place
    return f"${path} is {number}, and JSON has no such number: push None or a string instead"


def _other(value: Any) -> Any:
    """Return a value that orjson does not know as one that it knows."""
    if is_record(value):
        return fields_of(value)
    raise TypeError


def _refusal(value: Any) -> str | None:
    """Return which value JSON cannot hold, by its path, and what to push instead."""
    remaining: list[tuple[str, Any]] = [("$", value)]
    seen: dict[int, Any] = {}  # a value may contain itself
    while remaining:
        path, each = remaining.pop()
        if id(each) in seen:
            continue
        if isinstance(each, dict) and (bad := [name for name in each if type(name) is not str]):
            return f"{path} has the name {bad[0]!r}: names are text, as in {{str(name): value}}"
        if members := list(_members(each)):
            seen[id(each)] = each
            remaining += [(path + step(name), inner) for name, inner in reversed(members)]
            continue
        try:
            orjson.dumps(each, _other)
        except TypeError as error:
            return f"{path} is of type {type(each).__name__}: {_advice(each, error)}"
    return None


def _advice(value: Any, error: TypeError) -> str:
    if isinstance(value, str):
        return str(error)  # a lone surrogate
    if isinstance(value, int):
        return "it needs more than 64 bits, so push text, as in str(value)"
    for kinds, instead in _INSTEAD:
        if isinstance(value, kinds):
            return f"push {instead}"
    return "push text, a number, a list or a dict instead"


def _non_finite(value: Any) -> tuple[str, float] | None:
    """Return the first number in ``value`` that is not finite, with the path to it, or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", value)
    if isinstance(value, enum.Enum):
        return _non_finite(value.value)
    for name, inner in _members(value):
        # Most values are text, integers or None, which need no call.
        if type(inner) not in _SAFE and (place := _non_finite(inner)) is not None:
            return step(name) + place[0], place[1]
    return None


def _members(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the members that orjson writes, by name or position."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list) or type(value) is tuple:
        return enumerate(value)
    if not is_record(value):
        return ()
    if not dataclasses.is_dataclass(value):
        return _members(fields_of(value))
    names = getattr(value, "__dict__", None) or [field.name for field in dataclasses.fields(value)]
    return [(name, getattr(value, name)) for name in names if not name.startswith("_")]


def step(name: Any) -> str:
    """Return how a path goes on to a member, by its name or position."""
    if isinstance(name, int):
        return f"[{name}]"
    plain = isinstance(name, str) and _PLAIN_NAME.fullmatch(name)
    return f".{name}" if plain else f"[{name!r}]"
