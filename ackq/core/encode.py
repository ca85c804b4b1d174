"""Encode a producer's messages as the bytes that are pushed."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

import orjson

from ackq.core import observation
from ackq.core.ids import key_of_id, usable_id, usable_ids
from ackq.core.json_values import Record, fields_of, is_record, not_finite, to_json
from ackq.core.observation import Members
from ackq.core.outside import Outside
from ackq.errors import InvalidMessage, MessageTooLarge

T = TypeVar("T")
#: A message ready to be pushed: its id (empty if it has none), and its body. A bare tuple, since
#: batches make one a message.
Encoded = tuple[str, bytes]
#: What producers may push.
Pushable = Mapping[str, Any] | bytes | Record
_BYTES = (bytes, bytearray, memoryview)
#: Random ids, and encoded bodies, that one call of a fast C function handles in `encode_many`.
_AT_ONCE = 64


def encode(
    message: Pushable, limit: int, outside: Outside, time_field: str | None = None
) -> Encoded:
    """Return ``message`` as bytes, its id first, so that the pop script need not decode it.

    A mapping or a record becomes a JSON object. If it has no ``id``, it gets a random one of
    16 characters. If it has no ``time_field``, it gets the time there. Bytes are unchanged.

    Raises:
        InvalidMessage: another type, an unusable id, or a value that JSON cannot hold.
        MessageTooLarge: longer than ``limit`` bytes.
    """
    id, body = _encode(message, lambda: next(_random_ids(outside, 1)))
    if len(body) > limit:
        raise _too_large(id, body, limit)
    if body.count(b"null"):
        _check_finite(id, message)
    if time_field is not None or observation.members():
        body = _with_members(_added(outside, time_field), message, body, limit)
    return id, body


def encode_many(
    messages: Iterable[Pushable],
    limit: int,
    outside: Outside,
    time_field: str | None = None,
) -> tuple[list[str], list[bytes]]:
    """Return the ids and the bodies that `encode` returns, for less than one call each would cost.

    Raises:
        InvalidMessage: as in `encode`, for one of the messages.
        MessageTooLarge: as in `encode`, for one of the messages.
    """
    draw_id = _random_ids(outside, _AT_ONCE).__next__
    added = _added(outside, time_field)
    ids: list[str] = []
    bodies: list[bytes] = []
    iterator = iter(several(messages, "push_many"))
    while batch := list(islice(iterator, _AT_ONCE)):
        try:
            if set(map(type, batch)) == {bytes}:
                some_ids, some = _check_bodies(cast(list[bytes], batch), limit)
            else:
                some_ids, some = _encode_batch(batch, limit, draw_id, added)
        except (InvalidMessage, MessageTooLarge):
            for position, message in enumerate(batch, len(ids)):
                try:
                    encode(message, limit, outside, time_field)
                except (InvalidMessage, MessageTooLarge) as error:
                    error.args = (f"messages[{position}]: {error}",)
                    raise
            raise
        ids += some_ids
        bodies += some
    return ids, bodies


def _check_bodies(bodies: list[bytes], limit: int) -> tuple[list[str], list[bytes]]:
    """Return the ids of bodies that are pushed unchanged, and the bodies."""
    ids = usable_ids(bodies)
    if max(map(len, bodies)) > limit:
        at = next(at for at, body in enumerate(bodies) if len(body) > limit)
        raise _too_large(ids[at], bodies[at], limit)
    return ids, bodies


def _encode_batch(
    batch: Sequence[Any], limit: int, draw_id: Callable[[], str], added: Sequence[Members]
) -> tuple[list[str], list[bytes]]:
    """Return the ids and the bodies of messages of any kind."""
    ids: list[str] = []
    bodies: list[bytes] = []
    for message in batch:
        id, body = _encode(message, draw_id)
        if len(body) > limit:
            raise _too_large(id, body, limit)
        ids.append(id)
        # Keep a copy: orjson returns a shrunk block of 1 KiB, and while more than a hundred of them
        # are kept, allocating the next one takes 2 µs.
        bodies.append(b"%b" % body)
    if b"null" in b"".join(bodies):
        for id, message in zip(ids, batch, strict=True):
            _check_finite(id, message)
    if added:
        bodies = [
            _with_members(added, message, body, limit)
            for message, body in zip(batch, bodies, strict=True)
        ]
    return ids, bodies


def _added(outside: Outside, time_field: str | None) -> Sequence[Members]:
    """Return what is added to the mappings of a call."""
    observed = observation.members()
    added = (observed,) if observed else ()
    if time_field is None:
        return added
    time = b'"%s":"%s"' % (time_field.encode(), outside.now().encode())
    return (*added, Members((time_field,), time))


def _random_ids(outside: Outside, at_once: int) -> Iterator[str]:
    while True:
        text = base64.urlsafe_b64encode(outside.token(12 * at_once)).decode()
        for start in range(0, len(text), 16):
            yield text[start : start + 16]


def _encode(message: Pushable, draw_id: Callable[[], str]) -> Encoded:
    """Encode a message without checking its length, or searching it for NaN and infinity."""
    if type(message) is not dict:
        if isinstance(message, _BYTES):
            body = bytes(message)
            return usable_id(body) or "", body
        message = mapping_of(message)
    if "id" in message:
        raw_id = message["id"]
        if (id := key_of_id(raw_id)) is None:
            raise InvalidMessage(
                f"id {raw_id!r} is invalid: it must be a non-empty string of at most 512 bytes"
                " or an integer below 2**53. Without an id, ackq draws one"
            )
    else:
        raw_id = id = draw_id()
    whole = message
    if type(message) is not dict or next(iter(message), None) != "id":
        whole = {"id": raw_id, **message}
    try:
        return id, orjson.dumps(whole)
    except TypeError:
        return id, _encode_others(id, whole)


def _encode_others(id: str, message: Mapping[str, Any]) -> bytes:
    """Encode a message with values that orjson does not know."""
    try:
        return to_json(message)
    except TypeError as error:
        raise InvalidMessage(f"message {id!r} cannot be JSON: {error}") from error


def _too_large(id: str, body: bytes, limit: int) -> MessageTooLarge:
    return MessageTooLarge(
        f"message {id!r} is {len(body)} bytes, over the limit of {limit}:"
        " store the content elsewhere and push a reference, or raise max_body_bytes"
        " on producers and consumers"
    )


def _with_members(added: Sequence[Members], message: Any, body: bytes, limit: int) -> bytes:
    """Return ``body`` with what is added to mappings; see `Members.added_to`."""
    if isinstance(message, _BYTES):
        return body
    for members in added:
        body = members.added_to(body, message, limit)
    return body


def mapping_of(message: Any) -> Mapping[str, Any]:
    """Return a mapping, or a record as one.

    Raises:
        InvalidMessage: it is neither.
    """
    if isinstance(message, Mapping):
        return message
    if is_record(message) and isinstance(fields := fields_of(message), Mapping):
        return fields
    raise InvalidMessage(
        f"a message is a mapping, a record or bytes, not {type(message).__name__}: wrap the value,"
        " as in {'value': ...}, or encode it yourself"
    )


def several(messages: Iterable[T], method: str) -> Iterable[T]:
    """Return ``messages``, unless this is one message, or none, instead of several.

    Raises:
        InvalidMessage: that is so.
    """
    single = isinstance(messages, Mapping | str | bytes | bytearray | memoryview)
    if single or is_record(messages) or not isinstance(messages, Iterable):
        given = "None" if messages is None else f"one {type(messages).__name__}"
        raise InvalidMessage(
            f"{method} takes several messages, not {given}: pass a list of messages, or call"
            f" {method.removesuffix('_many')}"
        )
    return messages


def _check_finite(id: str, message: Any) -> None:
    """Raise an error if orjson wrote a number of ``message`` as null."""
    if isinstance(message, _BYTES):
        return
    if (text := not_finite(dict(mapping_of(message)))) is not None:
        raise InvalidMessage(f"message {id!r} cannot be JSON: {text}")
