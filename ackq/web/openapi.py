"""The document of the page's API, in OpenAPI 3.1: derived from what it answers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import ackq
from ackq.web.answers import ErrorAnswer

#: Errors that any request may end with.
ERRORS = {
    "400": "A parameter is impossible.",
    "403": "The page's Redis user may not read this.",
    "404": "It does not exist.",
    "409": "A key has another type.",
    "503": "Redis cannot be read.",
}
_PLAIN: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a request."""

    name: str
    text: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address of the API."""

    path: str
    text: str
    answer: type
    parameters: Sequence[Parameter] = ()


def document(endpoints: Sequence[Endpoint], prefix: str) -> dict[str, Any]:
    """Return the document.

    Args:
        endpoints: the addresses.
        prefix: of their paths.
    """
    schemas: dict[str, Any] = {}
    schema_of(ErrorAnswer, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ackq",
            "version": ackq.__version__,
            "description": "What the page of ackq web shows, to read. All times are UTC.",
        },
        "servers": [{"url": prefix}],
        "paths": {each.path: {"get": _operation(each, schemas)} for each in endpoints},
        "components": {"schemas": schemas},
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": endpoint.path.strip("/"),
        "summary": endpoint.text,
        "parameters": [
            {
                "name": each.name,
                "in": "query",
                "description": each.text,
                "required": each.required,
                "schema": {"type": "string"},
            }
            for each in endpoint.parameters
        ],
        "responses": {
            "200": _reply("The answer.", schema_of(endpoint.answer, schemas)),
            **{
                status: _reply(text, schema_of(ErrorAnswer, schemas))
                for status, text in ERRORS.items()
            },
        },
    }


def _reply(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def schema_of(type_: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a type. Those of dataclasses are added to ``schemas``."""
    if get_origin(type_) is Annotated:
        inner, text = get_args(type_)[:2]
        return {**schema_of(inner, schemas), "description": text}
    if type_ in _PLAIN:
        return {"type": _PLAIN[type_]}
    if is_dataclass(type_):
        return _of_class(type_, schemas)  # type: ignore[arg-type]
    origin, args = get_origin(type_), get_args(type_)
    if origin is list:
        return {"type": "array", "items": schema_of(args[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(args[1], schemas)}
    assert origin is UnionType
    (inner,) = (each for each in args if each is not NoneType)
    return {"anyOf": [schema_of(inner, schemas), {"type": "null"}]}


def _of_class(type_: type, schemas: dict[str, Any]) -> dict[str, Any]:
    name = type_.__name__.removesuffix("Answer")
    if name not in schemas:
        schemas[name] = {}  # it may contain itself
        hints = get_type_hints(type_, include_extras=True)
        names = [each.name for each in fields(type_)]
        schemas[name] = {
            "type": "object",
            "description": inspect.getdoc(type_),
            "properties": {each: schema_of(hints[each], schemas) for each in names},
            "required": names,
            "additionalProperties": False,
        }
    return {"$ref": f"#/components/schemas/{name}"}
