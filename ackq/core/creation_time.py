"""When a message was created, by its body: a list records no times."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import orjson

#: The member that tells a CloudEvent from other JSON objects. Its time is in ``time``.
CLOUDEVENT = "specversion"
#: Numbers from here on are milliseconds: as seconds, this is the year 5138.
_MILLISECONDS = 1e11
#: Larger numbers are no milliseconds either, but microseconds or something else.
_MAX_TIME = 1e14
#: A time in RFC 3339.
_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)


def created_at(body: bytes, field: str | None) -> float | None:
    """Return when a message was created, in seconds since the epoch; None if that is unknown.

    Args:
        body: of the message.
        field: the member of the JSON object that holds the time. If it is None, or the body has
            no valid time there, the ``time`` of a CloudEvent is used.
    """
    parsed = object_of(body)
    seconds = _seconds(parsed.get(field))
    if seconds is None and CLOUDEVENT in parsed:
        return _seconds(parsed.get("time"))
    return seconds


def object_of(body: bytes) -> dict[Any, Any]:
    """Return the JSON object that a body is, or an empty one."""
    try:
        parsed = orjson.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _seconds(value: Any) -> float | None:
    """Return a time in JSON in seconds since the epoch, or None if the value is not a time."""
    if isinstance(value, str) and _RFC_3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value.upper()).timestamp()
        except (ValueError, OverflowError):  # such as February 30th
            return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _MAX_TIME:
        return value / 1000 if value >= _MILLISECONDS else float(value)
    return None
