"""Decode CloudEvents 1.0 in structured mode: JSON with attributes around the data."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, MapType, StringType, TimestampType

from ackq.errors import ConfigurationError
from ackq.spark.formats.misfit import Decode, Misfit
from ackq.spark.values import parse

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

#: Types of columns that keep numbers as they are written, and values that contain none.
_EXACT = re.compile("string|decimal|float")
_NO_NUMBERS = {str, bool, type(None)}
#: The prefix of columns with attributes, as in the headers of CloudEvents' binding for Kafka.
PREFIX = "ce_"
_TEXT = StringType()
_REQUIRED = ("specversion", "id", "source", "type")
_OPTIONAL = ("datacontenttype", "dataschema", "subject", "time")
_DATA, _DATA_BASE64, _VERSION = "data", "data_base64", "1.0"
_KNOWN = {*_REQUIRED, *_OPTIONAL, _DATA, _DATA_BASE64}
_EXTENSIONS = f"{PREFIX}extensions"
#: The columns with attributes.
COLUMNS: dict[str, DataType] = {
    **{f"{PREFIX}{name}": _TEXT for name in (*_REQUIRED, *_OPTIONAL)},
    f"{PREFIX}time": TimestampType(),
    _EXTENSIONS: MapType(_TEXT, _TEXT),
}


def decoder(
    columns: Sequence[StructField],
    format: str,
    of_data: Callable[[Sequence[StructField]], Decode],
) -> Decode:
    """Return the decoder of CloudEvents.

    Args:
        columns: of attributes and of the data.
        format: of the data.
        of_data: returns the decoder of data with some columns.

    Raises:
        ConfigurationError: a column is of no attribute, or has another type than its attribute.
    """
    of_attributes = [column for column in columns if column.name.startswith(PREFIX)]
    for column in of_attributes:
        if (kind := COLUMNS.get(column.name)) != column.dataType:
            known = f"is {kind.simpleString()}" if kind else f"is none of {', '.join(COLUMNS)}"
            raise ConfigurationError(f"column {column.name!r} of a CloudEvent {known}")
    inner = [each for each in columns if each not in of_attributes]
    exact = [each.name for each in inner if _EXACT.search(each.dataType.simpleString())]
    return partial(_decode, of_data(inner), format, exact)


def _decode(of_data: Decode, format: str, exact: Sequence[str], body: bytes) -> dict[str, Any]:
    event = parse(body, exact=False)
    _check(event)
    fields = _data(event, of_data, format)
    if not {type(fields.get(name)) for name in exact} <= _NO_NUMBERS:
        fields = _data(parse(body, exact=True), of_data, format)
    for name in (*_REQUIRED, *_OPTIONAL):
        fields[f"{PREFIX}{name}"] = event.get(name)
    fields[_EXTENSIONS] = {
        name: value for name, value in event.items() if name not in _KNOWN and value is not None
    }
    return fields


def _check(event: dict[str, Any]) -> None:
    for name in _REQUIRED:
        if not event.get(name):
            raise Misfit(f"not a CloudEvent: no {name}")
    for name in (*_REQUIRED, *_OPTIONAL):
        if not isinstance(event.get(name), str | None):
            raise Misfit(f"not a CloudEvent: {name} is not text")
    if event["specversion"] != _VERSION:
        raise Misfit(f"not a CloudEvent of version {_VERSION}")


def _data(event: dict[str, Any], of_data: Decode, format: str) -> dict[str, Any]:
    """Return the fields of the data; none if the event has no data."""
    data, encoded = event.get(_DATA), event.get(_DATA_BASE64)
    if data is not None and encoded is not None:
        raise Misfit("not a CloudEvent: data twice")
    if encoded is not None:
        return of_data(_decoded(encoded))
    if data is None:
        return {}
    if format == "json":
        if not isinstance(data, dict):
            raise Misfit("data is not a JSON object")
        return dict(data)
    if format in ("csv", "text") and isinstance(data, str):
        return of_data(data.encode())
    raise Misfit(f"data is not {format}")


def _decoded(encoded: Any) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (ValueError, TypeError):
        raise Misfit("data_base64 is not base64") from None
