"""The id in a message's body, and the lease key that it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import orjson

#: A body that begins with an id, as `encode` writes most of them: no need to parse the rest.
_FIRST_ID = re.compile(rb'\{"id": ?"([ !#-\[\]-~]{1,512})"')


def text_of_key(key: bytes, body: bytes) -> str:
    """Return the message's name for users: the id in its body, else its key.

    A derived key begins with NUL; its message may still have an id.
    """
    if key[:1] not in (b"", b"\0"):
        return key.decode(errors="replace")
    return usable_id(body) or key.lstrip(b"\0").decode(errors="replace")


def usable_id(body: bytes) -> str | None:
    """Return the id of a JSON object as its lease key, or None if it is unusable.

    Usable ids are non-empty strings of at most 512 bytes that do not begin with NUL, and integers
    of absolute value below 2**53, written as 1, 1.0 or 1e0. `natural_key` in ``pop.lua`` is the
    authority.
    """
    if matched := _FIRST_ID.match(body):
        return matched[1].decode()
    return _parsed_id(body)


def usable_ids(bodies: Iterable[bytes]) -> list[str]:
    """Return `usable_id` of each body, "" for None, for less than one call each would cost."""
    match = _FIRST_ID.match
    return [
        matched[1].decode() if (matched := match(body)) else _parsed_id(body) or ""
        for body in bodies
    ]


def _parsed_id(body: bytes) -> str | None:
    try:
        parsed = orjson.loads(body)
    except ValueError:
        return None
    return key_of_id(parsed.get("id")) if isinstance(parsed, dict) else None


def key_of_id(value: Any) -> str | None:
    """Return the lease key of an id, or None if it is unusable; see `usable_id`."""
    # The length of an ASCII id is known without encoding it.
    if type(value) is str and value.isascii() and 0 < len(value) <= 512 and value[0] != "\0":
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, str) and value and value[0] != "\0":
        try:
            return value if len(value.encode()) <= 512 else None
        except UnicodeEncodeError:
            return None
    return None
