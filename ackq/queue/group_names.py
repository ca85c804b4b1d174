"""The group of a message: a member of its JSON object."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from typing import Any

import orjson

from ackq.config import QueueConfig
from ackq.core.encode import Pushable, encode, mapping_of
from ackq.core.outside import Outside
from ackq.errors import InvalidMessage
from ackq.queue import loose_json

#: Longest body that is parsed for its group, in bytes.
MAX_READ = 65_536
#: Bytes in which the longest id and the group behind it end.
HEAD = 1200
#: Integers from here on are read as floats: JSON parsers disagree about them.
_TOO_LARGE = 2**53
#: Longest name in bytes; of a longer one its hash is stored.
_LONG = 512
#: Half of a character, which the scripts do not decode.
_SURROGATE = re.compile("[\ud800-\udfff]")
_HASH = re.compile(b"\1[0-9a-f]{40}")
_SHOWN_HASH = re.compile("sha1:([0-9a-f]{40})")


def group_of(body: bytes, field: str) -> str | None:
    """Return the group that a body names in this member, as text, or None.

    Groups are texts that are not empty, and integers below 2**53: 17, 17.0 and "17" are one. A body
    over 64 KiB has a group only if it begins with its id and this member. `read` in
    ``lua/groups/pop.lua`` is the authority.
    """
    if matched := _behind_the_id(field).match(body, 0, HEAD):
        return (matched[1] or matched[2]).decode(errors="replace")
    if len(body) > MAX_READ or b'"%b"' % field.encode() not in body:
        return None
    try:
        parsed = _parsed(body)
    except ValueError:
        return None
    return text_of_group(parsed.get(field)) if isinstance(parsed, dict) else None


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError:
        return loose_json.loads(body)


def group_to_push(
    message: Pushable, field: str, config: QueueConfig, outside: Outside
) -> str | None:
    """Return the group that the body of a message will name; see `group_of`.

    Args:
        message: as `grouped` returns it.
        field: the member that names the group.
        config: of the queue.
        outside: draws an id that is thrown away.
    """
    if isinstance(message, dict) and type(value := message.get(field)) in (str, int):
        return text_of_group(value)
    return group_of(encode(message, config.max_body_bytes, outside, config.time_field)[1], field)


@functools.lru_cache(64)
def _behind_the_id(field: str) -> re.Pattern[bytes]:
    """Return what matches a body that begins with its id and a group, as ackq writes them."""
    name, text, number = re.escape(field.encode()), rb'"[^"\\\x00-\x1f\x7f]+"', rb"[1-9]\d{0,14}"
    return re.compile(
        rb'\{"id":\s?(?:%b|%b),\s?"%b":\s?(?:"(%b)"|(-?%b)[,}])'
        % (text, number, name, text[1:-1], number)
    )


def text_of_group(value: Any) -> str | None:
    """Return a group as text, or None if this is not a group; see `group_of`."""
    if isinstance(value, str):
        return value if value and not _SURROGATE.search(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(int(value)) if abs(value) < _TOO_LARGE and value == int(value) else None


def _can_be_written(group: Any) -> bool:
    if isinstance(group, int) and not isinstance(group, bool):
        return abs(group) < _TOO_LARGE
    return isinstance(group, str) and group != ""


def check_read(bodies: Iterable[bytes], field: str) -> None:
    """Check that the scripts find the group that was written into these bodies.

    Raises:
        InvalidMessage: they do not, because a body is long and its group needs decoding.
    """
    if any(len(body) > MAX_READ and group_of(body, field) is None for body in bodies):
        raise InvalidMessage(
            f"the group of a message over {MAX_READ} bytes is a text of at most 512 bytes without"
            ' control characters, " and \\, or an integer other than 0 below 10**15; so is its id,'
            " which is not negative"
        )


def grouped(message: Pushable, field: str, group: str | int | None) -> Pushable:
    """Return a message whose group, if it has one, stands next to its id.

    There the scripts find it without parsing the message.

    Args:
        message: a mapping or record gets the group. Bytes stay as they are.
        field: the member that names the group.
        group: to be written there. None: leave the group that the message names.

    Raises:
        InvalidMessage: a group is given, and the message is bytes or names another one, or it is
            not a group.
    """
    if not isinstance(message, dict) and isinstance(message, bytes | bytearray | memoryview):
        if group is not None:
            raise InvalidMessage(
                f"bytes are pushed unchanged: write the group into their {field!r}, or push a"
                " mapping"
            )
        return message
    fields = message if isinstance(message, dict) else mapping_of(message)
    if group is None:
        if field not in fields:
            return fields
        group = fields[field]
    elif not _can_be_written(group):
        raise InvalidMessage(f"a group is a text or an integer below 2**53, not {group!r}")
    elif field in fields and text_of_group(fields[field]) != text_of_group(group):
        raise InvalidMessage(
            f"the message names the group {fields[field]!r} in {field!r}, and group={group!r}"
            " another one"
        )
    first = {"id": fields["id"], field: group} if "id" in fields else {field: group}
    return {**first, **fields, field: group}


def tags_of(name: str) -> tuple[bytes, ...]:
    """Return what stands for a group in the keys: of its name, then of what `shown_name` returned.

    A short name may look like that of a long one as it is shown.
    """
    raw = name.encode(errors="replace")
    if len(raw) > _LONG:
        return (b"\1" + hashlib.sha1(raw, usedforsecurity=False).hexdigest().encode(),)
    shown = _SHOWN_HASH.fullmatch(name)
    return (raw, b"\1" + shown[1].encode()) if shown else (raw,)


def shown_name(tag: bytes) -> str:
    """Return the name of a group to be shown: of a long one, "sha1:" and its hash."""
    is_hash = _HASH.fullmatch(tag)
    return f"sha1:{tag[1:].decode()}" if is_hash else tag.decode(errors="replace")
