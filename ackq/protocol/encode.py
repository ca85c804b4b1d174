"""From what a producer passes to the bytes that go onto the list."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from typing import Any

import orjson

from ackq.errors import InvalidMessage, MessageTooLarge
from ackq.message import key_of_id, usable_id

#: A message ready to be pushed: its id (empty if it has none), and its body. A bare tuple, since
#: batches make one a message.
Encoded = tuple[str, bytes]


def encode(message: Mapping[str, Any] | bytes, limit: int) -> Encoded:
    """Return ``message`` as bytes, the id first so that the pop script need not decode it.

    A mapping (or a dataclass) becomes a JSON object; without an ``id`` it is given a random one
    of 16 characters. Bytes pass unchanged, whatever they hold.

    Raises:
        InvalidMessage: another type, an id that can be no key, or a value JSON cannot hold.
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
            return key, orjson.dumps(message)
        return key, orjson.dumps({"id": raw_id, **message})
    except TypeError as error:
        raise InvalidMessage(f"message {key!r} cannot be JSON: {error}") from error
