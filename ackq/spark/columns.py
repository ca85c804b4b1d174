"""The columns of a source: the default ones, and those that a user can request."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ackq.errors import ConfigurationError
from ackq.spark.options import CORRUPT_COLUMN, Parsing, Reading

_TEXT, _NUMBER = StringType(), LongType()
#: Columns that contain the body.
_OF_BODY: dict[str, DataType] = {"id": _TEXT, "value": _TEXT}
#: Columns that a source has only with metadata: the exact body, the time that it names, and when
#: its batch was planned.
_BODY: dict[str, DataType] = {"body": BinaryType(), "time": TimestampType()}
_PLANNED: dict[str, DataType] = {"received": TimestampType()}
_OF_QUEUE: dict[str, DataType] = {"queue": _TEXT, "batch": _NUMBER, "position": _NUMBER}
_OF_DELAY_QUEUE: dict[str, DataType] = {**_OF_QUEUE, "ready_time": TimestampType()}
_OF_TOPIC: dict[str, DataType] = {"topic": _TEXT, "offset": _NUMBER}
_OF_PEEK: dict[str, DataType] = {
    "queue": _TEXT,
    "state": _TEXT,
    "position": _NUMBER,
    "receive_count": _NUMBER,
    "at": TimestampType(),
    "reason": _TEXT,
    "entry": _TEXT,
}
_PLAIN = (
    StringType,
    BinaryType,
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    DateType,
    TimestampType,
    TimestampNTZType,
)


@dataclass(frozen=True)
class Columns:
    """Where each column of a schema comes from."""

    schema: StructType
    #: Columns that are not parsed -> the part of the message that they contain: "id", "queue", ...
    sourced: dict[str, str]
    #: The columns parsed from JSON, in the order of the schema.
    parsed: tuple[StructField, ...]
    #: The column for bodies that do not fit.
    corrupt: str | None


def source_columns(reading: Reading) -> dict[str, DataType]:
    """Return the metadata columns and the body columns."""
    if reading.target.kind == "topic":
        own = _OF_TOPIC | _PLANNED
    elif reading.state is not None:
        own = _OF_PEEK
    elif reading.target.kind == "delayQueue":
        own = _OF_DELAY_QUEUE | _PLANNED
    else:
        own = _OF_QUEUE | _PLANNED
    return {**_OF_BODY, **own, **_BODY}


def default_schema(reading: Reading) -> StructType:
    """Return the default columns: bodies as text, and where they come from."""
    schema = StructType()
    for name, kind in source_columns(reading).items():
        if name not in _BODY | _PLANNED:
            schema.add(name, kind)
    if reading.parsing.metadata:
        schema.add("_body", BinaryType())
    return schema


def columns_of(reading: Reading, schema: StructType) -> Columns:
    """Return where each column of ``schema`` comes from.

    Raises:
        ConfigurationError: the type or name of a column is not supported.
    """
    available = source_columns(reading)
    if schema == default_schema(reading):
        return Columns(schema, {name: name.lstrip("_") for name in schema.names}, (), None)
    metadata = (
        {f"_{name}": kind for name, kind in available.items()} if reading.parsing.metadata else {}
    )
    shown = {}
    parsed = []
    corrupt = None
    for field in schema.fields:
        if field.name in metadata:
            _check_type(field, metadata[field.name])
            shown[field.name] = field.name[1:]
        elif field.name == reading.parsing.corrupt_column:
            _check_type(field, _TEXT)
            corrupt = field.name
        else:
            _check_readable(field.name, field.dataType, field.nullable)
            parsed.append(field)
    _check_corrupt_column(reading.parsing, schema)
    reading.parsing.format.decoder(parsed)  # refuses columns that the format cannot have
    return Columns(schema, shown, tuple(parsed), corrupt)


def _check_type(field: StructField, kind: DataType) -> None:
    if field.dataType != kind:
        raise ConfigurationError(
            f"column {field.name!r} is {kind.simpleString()}, not {field.dataType.simpleString()}"
        )


def _check_corrupt_column(parsing: Parsing, schema: StructType) -> None:
    asked = parsing.corrupt_column != CORRUPT_COLUMN
    if asked and parsing.corrupt_column not in schema.names:
        raise ConfigurationError(
            f"option 'columnNameOfCorruptRecord' names {parsing.corrupt_column!r}, which the"
            " schema lacks: add it as a string"
        )


def _check_readable(where: str, kind: DataType, nullable: bool) -> None:
    if not nullable:
        raise ConfigurationError(
            f"column {where!r} must be nullable, since messages may lack it: remove NOT NULL"
        )
    if isinstance(kind, StructType):
        for field in kind.fields:
            _check_readable(f"{where}.{field.name}", field.dataType, field.nullable)
    elif isinstance(kind, ArrayType):
        _check_readable(f"{where}[]", kind.elementType, kind.containsNull)
    elif isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise ConfigurationError(
                f"column {where!r}: a map must have string keys, as JSON objects do"
            )
        _check_readable(f"{where}{{}}", kind.valueType, kind.valueContainsNull)
    elif not isinstance(kind, _PLAIN):
        raise ConfigurationError(
            f"column {where!r}: {kind.simpleString()} cannot be read from JSON; read a string and"
            " cast it"
        )
