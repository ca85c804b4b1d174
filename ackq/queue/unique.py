"""Pushes that store nothing while a message of the same id is in the queue."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal
from urllib.parse import quote

import orjson

from ackq import scripts
from ackq.config import Groups, microseconds
from ackq.core.effects import Arg, Operation, Request
from ackq.core.encode import Pushable, mapping_of
from ackq.core.ids import key_of_id, usable_id
from ackq.core.limits import MAX_DEDUP_WINDOW
from ackq.errors import ConfigurationError, InvalidMessage, KeyTypeError, NotConfirmed
from ackq.queue import front, places
from ackq.queue.messages import Pushed
from ackq.queue.push_options import PushOptions, Terms
from ackq.queue.spec import QueueSpec

#: Until when a message keeps its id: until it is done, or until it is taken.
Uniqueness = Literal["done", "taken"]
#: Most messages of one call.
CHUNK = 100
#: Searches for one message after which a push gives up: consumers change what was searched.
SEARCHES = 5
#: Longest body in bytes in which pop looks for an id that is not in front.
MAX_DECODED = 65536
_MARK = re.compile(rb"[0-9]+:[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class UniqueTerms:
    """The checked options of unique pushes."""

    unique: Uniqueness
    by: Sequence[str] | None
    replace: bool
    #: Microseconds for which a push believes that a message is still on the list.
    believed: int

    @classmethod
    def of(cls, options: PushOptions, terms: Terms) -> UniqueTerms | None:
        """Return the terms, or None if the pushes are not unique.

        Raises:
            ConfigurationError: the options contradict each other, or one is out of range.
        """
        if options.unique is None:
            if options.unique_by is not None or options.replace:
                raise ConfigurationError('unique_by and replace need unique="done" or "taken"')
            return None
        check_uniqueness(options.unique)
        if options.dedup is not None:
            raise ConfigurationError("give dedup or unique, not both")
        if options.replace and not terms.is_later:
            raise ConfigurationError("replace is for messages with delay or at")
        if options.unique_by is not None and (
            isinstance(options.unique_by, str)
            or not options.unique_by
            or not all(isinstance(name, str) and name for name in options.unique_by)
        ):
            raise ConfigurationError(
                f'unique_by is a list of fields, as ["customer"], not {options.unique_by!r}'
            )
        believed = max(1, microseconds(options.unique_for, "unique_for", MAX_DEDUP_WINDOW))
        return cls(options.unique, options.unique_by, options.replace, believed)


def check_uniqueness(unique: object) -> None:
    """Raise an error unless this is a `Uniqueness` or None."""
    if unique not in (None, "done", "taken"):
        raise ConfigurationError(f'unique is "done" or "taken", not {unique!r}')


def identified(message: Pushable, by: Sequence[str] | None) -> Pushable:
    """Return a message with the id by which it is unique.

    Raises:
        InvalidMessage: it has no id, or lacks a field of which its id is made.
    """
    if isinstance(message, bytes | bytearray | memoryview):
        if by is not None:
            raise InvalidMessage("unique_by is for mappings and records: give bytes an id")
        if usable_id(bytes(message)) is None:
            raise InvalidMessage("unique is for messages with an id; these bytes have none")
        return message
    fields = mapping_of(message)
    if by is None:
        if "id" not in fields:
            raise InvalidMessage("unique is for messages with an id: give it one, or unique_by=")
        return message
    if "id" in fields:
        raise InvalidMessage(f"the message has the id {fields['id']!r}: leave out unique_by")
    return {"id": id_of(fields, by), **fields}


def id_of(fields: Mapping[str, Any], by: Sequence[str]) -> str:
    """Return the id of a message that is unique by these fields, as "customer=17&kind=refund".

    A dot in a name leads into an object. Text that could be another JSON value is in quotation
    marks, and what a URL would escape is escaped. An id of more than 512 bytes is replaced by the
    hash of its text.

    Raises:
        InvalidMessage: a field is missing, or has no JSON value.
    """
    text = "&".join(f"{quote(name)}={quote(_text_of(_value_of(fields, name)))}" for name in by)
    return text if len(text) <= 512 else f"sha256={sha256(text.encode()).hexdigest()}"


def _value_of(fields: Any, name: str) -> Any:
    inner = fields
    for part in [name] if isinstance(fields, Mapping) and name in fields else name.split("."):
        if not isinstance(inner, Mapping) or part not in inner:
            raise InvalidMessage(f"unique_by: the message has no field {name!r}")
        inner = inner[part]
    return inner


def _text_of(value: Any) -> str:
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError as error:
        raise InvalidMessage(f"unique_by: {value!r} is no JSON value: {error}") from error
    if not isinstance(value, str):
        return text
    try:
        orjson.loads(value)
    except ValueError:
        return value
    return text


def check_found(id: str, body: bytes) -> None:
    """Raise an error unless pop finds the id in a body, so that an ack frees it."""
    if len(body) > MAX_DECODED:
        heads = (f'{{"id":"{id}"', f'{{"id": "{id}"', f'{{"id":{id},', f'{{"id": {id},')
        is_plain = '"' not in id and "\\" not in id and id.isprintable()
        if not (is_plain and body.startswith(tuple(head.encode() for head in heads))):
            raise InvalidMessage(
                f"message {id!r} is unique and over {MAX_DECODED} bytes, so its id must be in front"
                " and need no escapes"
            )


def store(
    spec: QueueSpec,
    ids: Sequence[str],
    bodies: Sequence[bytes],
    unique: UniqueTerms,
    terms: Terms,
) -> Operation[tuple[list[Pushed], NotConfirmed | None]]:
    """Store those messages of which no other one is in the queue; see `Terms.send`."""
    pushed = [Pushed(id) for id in ids]
    asked: dict[int, bytes] = dict.fromkeys(range(len(ids)), b"")
    for _ in range(SEARCHES):
        groups: list[Arg] = []
        for at, known in asked.items():
            groups += (ids[at], bodies[at], known)
        request = _request(spec, unique, terms, groups)
        (on_list, *rows), unconfirmed = yield from terms.send(spec, request)
        stored = [rows[::2][n] in (b"stored", b"replaced") for n in range(len(asked))]
        if on_list:
            last = max(at for at, is_stored in zip(asked, stored, strict=True) if is_stored)
            yield from front.hand_over(spec, on_list, bodies[last])
        unknown = {}
        for at, is_stored, status, notes in zip(asked, stored, rows[::2], rows[1::2], strict=True):
            pushed[at].stored = is_stored
            if status == b"search":
                unknown[at] = notes
        if not unknown or unconfirmed is not None:
            return pushed, unconfirmed
        asked = {}
        for at, notes in unknown.items():
            asked[at] = yield from search(spec, ids[at], notes)
    return pushed, None


def search(spec: QueueSpec, message_id: str, notes: bytes) -> Operation[bytes]:
    """Return what a search for a message finds, as the scripts take it.

    If consumers changed too much meanwhile, that is nothing, so the script asks again.
    """
    is_listed = yield from places.is_listed(spec, message_id, _MARK.findall(notes))
    return b"" if is_listed is None else (b"+" if is_listed else b"-") + notes


def _request(spec: QueueSpec, unique: UniqueTerms, terms: Terms, groups: Sequence[Arg]) -> Request:
    return Request(
        (
            *spec.keys.passed("push_unique"),
            unique.unique,
            int(unique.replace),
            unique.believed,
            terms.when,
            terms.due,
            spec.keys.pop_from,
            *groups,
        ),
        script=scripts.load("push_unique"),
        confirm=terms.confirm,
    )


def shard_key(message: Pushable) -> str:
    """Return the key by which all messages of an id go to one shard, from an identified message."""
    if isinstance(message, bytes | bytearray | memoryview):
        return usable_id(bytes(message)) or ""
    return key_of_id(mapping_of(message)["id"]) or ""


def check_alone(key: object, groups: Groups | None) -> None:
    """Raise an error if the shard of unique messages is chosen in another way than by their ids."""
    if groups is not None:
        raise ConfigurationError(
            "a sharded queue with groups takes no push with unique=: the id of a unique message"
            " determines its shard, and so does its group"
        )
    if key is not None:
        raise ConfigurationError("the id of a unique message determines its shard: leave out key")


def is_queued(spec: QueueSpec, message_id: str, unique: Uniqueness) -> Operation[bool]:
    """Return whether another shard has a message with this id, as ``unique`` counts them."""
    try:
        sets = (spec.keys.delayed, spec.keys.backup) if unique == "done" else (spec.keys.delayed,)
        for key in sets:
            if (yield Request((b"ZSCORE", key, message_id), resend=True)) is not None:
                return True
        return (yield from places.is_listed(spec, message_id)) is not False
    except KeyTypeError:
        return False  # the shard is retired, so nothing is left on it
