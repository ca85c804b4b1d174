"""What decoders of bodies share: their error, the JSON form of values, and the check of columns."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ackq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

#: Returns the fields of a body as JSON values; raises `Misfit` or another of ``values.MISFITS``.
Decode = Callable[[bytes], dict[str, Any]]


class Misfit(ValueError):
    """A body is not of the format. The text becomes the reason of a dead letter.

    Rejected messages are counted by reason, so a text never contains anything of the body.
    """


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


def check_columns(columns: Sequence[StructField], fields: Sequence[str]) -> None:
    """Raise an error for a column that a schema lacks.

    Raises:
        ConfigurationError: it names the column, and the nearest field or all of them.
    """
    for column in columns:
        if column.name not in fields:
            near = get_close_matches(column.name, fields, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(fields)}"
            raise ConfigurationError(f"the schema has no field for column {column.name!r}; {meant}")
