"""Decode bodies that are text: one line of CSV, or one column."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from ackq.errors import ConfigurationError
from ackq.spark.formats.misfit import Decode, Misfit
from ackq.spark.values import Written

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
_NO_LINE = "not a line of CSV"
_NESTED = (ArrayType, MapType, StructType)


def decoder(columns: Sequence[StructField], delimiter: str | None) -> Decode:
    """Return the decoder of lines.

    Args:
        columns: of a line, in its order.
        delimiter: between the cells of CSV; None: the body is the only column.

    Raises:
        ConfigurationError: CSV has no values of a column's type, or text has another column.
    """
    if delimiter is None:
        return partial(_text, _only(columns))
    for column in columns:
        if isinstance(column.dataType, _NESTED):
            raise ConfigurationError(
                f"column {column.name!r}: CSV has no {column.dataType.simpleString()}; read a"
                " string and parse it"
            )
    cells = [(column.name, _cell(column.dataType)) for column in columns]
    return partial(_line, cells, delimiter)


def _only(columns: Sequence[StructField]) -> str:
    if len(columns) == 1 and isinstance(columns[0].dataType, StringType):
        return columns[0].name
    raise ConfigurationError(
        "format 'text' has one column for the whole body, such as 'line STRING', not"
        f" {', '.join(column.simpleString() for column in columns) or 'none'}"
    )


def _text(name: str, body: bytes) -> dict[str, Any]:
    return {name: _decoded(body)}


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Misfit("not UTF-8") from None


def _line(
    cells: Sequence[tuple[str, Callable[[str], Any]]], delimiter: str, body: bytes
) -> dict[str, Any]:
    # Without line ends, the reader accepts them within quotes.
    text = _decoded(body)
    try:
        records = list(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error:
        # The reader's own limit is one for the whole process, whose other modules may rely on it.
        is_long = len(text) > csv.field_size_limit()
        raise Misfit("not a line of CSV or too long a cell" if is_long else _NO_LINE) from None
    if len(records) != 1:
        raise Misfit(_NO_LINE)
    if len(records[0]) != len(cells):
        raise Misfit("wrong number of cells")
    values = zip(cells, records[0], strict=True)
    return {name: convert(cell) if cell else None for (name, convert), cell in values}


def _cell(kind: DataType) -> Callable[[str], Any]:
    """Return a converter to the JSON value of a cell. Other texts stay, and do not fit."""
    if isinstance(kind, IntegralType):
        return lambda cell: int(cell) if _INTEGER.fullmatch(cell) else cell
    if isinstance(kind, FloatType | DoubleType):
        return lambda cell: Written(cell) if _NUMBER.fullmatch(cell) else cell
    if isinstance(kind, BooleanType):
        return lambda cell: _BOOLEANS.get(cell.lower(), cell)
    return str
