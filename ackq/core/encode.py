"""Encode a producer's messages as the bytes that are pushed."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from ackq.core.ids import key_of_id, usable_id
from ackq.errors import InvalidMessage, MessageTooLarge

#: A message ready to be pushed: its id (empty if it has none), and its body. A bare tuple, since
#: batches make one a message.
Encoded = tuple[str, bytes]
#: A name that a path shows as it is; others are quoted.
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: Types of values that never contain a number without a form in JSON.
_SAFE = frozenset({str, int, bool, type(None)})


def encode(message: Mapping[str, Any] | bytes, limit: int) -> Encoded:
    """Return ``message`` as bytes, its id first, so that the pop script need not decode it.

    A mapping (or a dataclass) becomes a JSON object. If it has no ``id``, it gets a random one of
    16 characters. Bytes are unchanged, whatever they contain.

    Raises:
        InvalidMessage: another type, an unusable id, or a value that JSON cannot hold.
        MessageTooLarge: longer than ``limit`` bytes.
    """
    if type(message) is dict:
        encoded = _encode_mapping(message)
    elif isinstance(message, bytes | bytearray | memoryview):
        encoded = "", bytes(message)
    else:
        encoded = _encode_object(message)
    id, body = encoded
    if len(body) > limit:
        raise MessageTooLarge(
            f"message {id!r} is {len(body)} bytes, over the limit of {limit}:"
            " store the content elsewhere and push a reference, or raise max_body_bytes"
            " on producers and consumers"
        )
    return encoded if id else (usable_id(body) or "", body)


def _encode_object(message: Any) -> Encoded:
    if dataclasses.is_dataclass(message) and not isinstance(message, type):
        message = {
            field.name: getattr(message, field.name) for field in dataclasses.fields(message)
        }
    if not isinstance(message, Mapping):
        raise InvalidMessage(
            f"push takes a mapping or bytes, not {type(message).__name__}: wrap the value, as in"
            " {'value': ...}, or encode it yourself"
        )
    return _encode_mapping(message)


def _encode_mapping(message: Mapping[str, Any]) -> Encoded:
    if "id" in message:
        raw_id = message["id"]
        key = key_of_id(raw_id)
        if key is None:
            raise InvalidMessage(
                f"id {raw_id!r} can be no key: it must be a non-empty string of at most 512 bytes"
                " or an integer below 2**53. Leave it out and ackq draws one"
            )
    else:
        raw_id = key = secrets.token_urlsafe(12)
    try:
        if type(message) is dict and next(iter(message), None) == "id":
            return key, to_json(message)
        return key, to_json({"id": raw_id, **message})
    except TypeError as error:
        raise InvalidMessage(f"message {key!r} cannot be JSON: {error}") from error


def to_json(value: Any) -> bytes:
    """Return ``value`` as JSON.

    orjson writes NaN and infinity as null, which would change the message. To detect this, only
    values whose JSON contains ``null`` are searched, so others cost only the search for that word.

    Raises:
        orjson.JSONEncodeError: a TypeError: a value that JSON cannot hold; names it by its path.
    """
    body = orjson.dumps(value)
    if b"null" in body and (found := _non_finite(value)) is not None:
        path, number = found
        raise orjson.JSONEncodeError(
            f"${path} is {number}, and JSON has no such number: push None or a string instead"
        )
    return body


def _non_finite(value: Any) -> tuple[str, float] | None:
    """Return the first number in ``value`` that is not finite, with the path to it, or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", value)
    if isinstance(value, enum.Enum):
        return _non_finite(value.value)
    for name, inner in _members(value):
        # Most values are text, integers or None, which need no call.
        if type(inner) not in _SAFE and (found := _non_finite(inner)) is not None:
            return _step(name) + found[0], found[1]
    return None


def _members(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the members that orjson writes, by name or position."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    if not dataclasses.is_dataclass(value):
        return ()
    names = getattr(value, "__dict__", None) or [each.name for each in dataclasses.fields(value)]
    return [(name, getattr(value, name)) for name in names if not name.startswith("_")]


def _step(name: Any) -> str:
    if isinstance(name, int):
        return f"[{name}]"
    return f".{name}" if _PLAIN_NAME.fullmatch(name) else f"[{name!r}]"
