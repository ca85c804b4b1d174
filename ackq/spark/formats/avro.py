"""Decode bodies that are Avro records in binary form, without a header."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastavro import parse_schema, schemaless_reader
from fastavro._read_py import schemaless_reader as bounded_reader
from fastavro.schema import SchemaParseException, UnknownType

from ackq.errors import ConfigurationError
from ackq.spark.formats.misfit import Decode, Misfit, check_columns, plain

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    from ackq.spark.formats.registry import RegisteredSchema

#: Errors of fastavro for bodies that are not of the schema.
_ERRORS = (ValueError, TypeError, ArithmeticError, LookupError, EOFError, RecursionError)
#: Errors for a text that is no schema.
_INVALID = (SchemaParseException, UnknownType, *_ERRORS)
_WRONG = "not Avro of its schema"


def from_file(schema: bytes, message_type: str | None, columns: Sequence[StructField]) -> Decode:
    """Return the decoder of bodies with the schema of a file.

    Args:
        schema: the file, JSON.
        message_type: is for Protobuf.
        columns: that the schema must have.

    Raises:
        ConfigurationError: the file is no schema of a record, or lacks a column.
    """
    try:
        made = _Reader(json.loads(schema), {})
    except _INVALID as error:
        raise ConfigurationError(
            f"option 'schemaFile': not an Avro schema of a record: {error}"
        ) from None
    check_columns(columns, made.fields)
    return made.read


def from_registry(schema: RegisteredSchema) -> Decode:
    """Return the decoder of bodies with a registered schema.

    Raises:
        Misfit: it is no schema of a record.
    """
    named: dict[str, Any] = {}
    try:
        for text in schema.references:
            parse_schema(json.loads(text), named)
        reader = _Reader(json.loads(schema.text), named)
    except _INVALID:
        raise Misfit("its schema is not one of an Avro record") from None
    return lambda body: reader.read(body[schema.start :])


class _Reader:
    """Reads records of one schema.

    Guarantee: no body takes more memory than in proportion to its length, and none ends the
    process.
    """

    def __init__(self, schema: Any, named: dict[str, Any]) -> None:
        self._schema: Any = parse_schema(schema, named)
        shape = _Shape(self._schema, named)
        if not shape.is_record:
            raise ValueError("it is another type")
        if shape.has_weightless_items:
            raise ValueError("it has an array whose elements take no bytes")
        self.fields = shape.fields
        # The reader in C ends the process if a body is nested too deeply.
        self._read: Callable[..., Any] = bounded_reader if shape.is_recursive else schemaless_reader

    def read(self, body: bytes) -> dict[str, Any]:
        stream = io.BytesIO(body)
        try:
            record = self._read(stream, self._schema, None)
        except _ERRORS:
            raise Misfit(_WRONG) from None
        if stream.tell() != len(body):
            raise Misfit(_WRONG)
        fields: dict[str, Any] = plain(record)
        return fields


class _Shape:
    """What a schema allows its bodies to do."""

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        self._named = named
        #: Names of records -> whether their values take bytes; None: they are being visited.
        self._visited: dict[str, bool | None] = {}
        self.is_recursive = self.has_weightless_items = False
        top = named.get(schema, schema) if isinstance(schema, str) else schema
        self.is_record = isinstance(top, dict) and top.get("type") == "record"
        self.fields = [field["name"] for field in top["fields"]] if self.is_record else []
        self._visit(schema)

    def _visit(self, schema: Any) -> bool:
        """Look at a schema; return whether all of its values take at least one byte."""
        if isinstance(schema, list):
            for each in schema:
                self._visit(each)
            return True
        if isinstance(schema, str):
            if schema not in self._named:
                return schema != "null"
            schema = self._named[schema]
        kind = schema["type"]
        if kind == "record":
            return self._visit_record(schema)
        if kind == "array" and not self._visit(schema["items"]):
            self.has_weightless_items = True
        if kind == "map":
            self._visit(schema["values"])
        if kind == "fixed":
            return bool(schema["size"])
        return True if kind in ("array", "map", "enum") else self._visit(kind)

    def _visit_record(self, schema: Mapping[str, Any]) -> bool:
        name = schema["name"]
        if name not in self._visited:
            self._visited[name] = None
            weights = [self._visit(each["type"]) for each in schema["fields"]]
            self._visited[name] = any(weights)
        visited = self._visited[name]
        if visited is None:
            self.is_recursive = True
        return visited is not False
