"""Turn decoded values into those that their JSON would have."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID


def plain(value: Any) -> Any:
    """Return ``value`` with texts for what JSON lacks: times in ISO 8601, bytes in base64, ...

    Raises:
        TypeError: a value is of an unknown type.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is dict:
        return {name: plain(each) for name, each in value.items()}
    if kind is list:
        return [plain(each) for each in value]
    if (convert := _TEXTS.get(kind)) is None:
        raise TypeError(f"no JSON form of {kind.__name__}")
    return convert(value)


def text_of(value: bytes) -> str:
    """Return bytes as text, in base64."""
    return base64.b64encode(value).decode()


_AS_THEY_ARE = (str, int, float, bool, type(None))
_TEXTS: dict[type, Callable[[Any], str]] = {
    bytes: text_of,
    Decimal: lambda value: f"{value:f}",
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    UUID: str,
}
