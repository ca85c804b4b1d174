"""The JSON Schema of the messages of a task, for producers in any language."""

from __future__ import annotations

import inspect
from typing import Any

from ackq.core.creation_time import CLOUDEVENT
from ackq.tasks.definition import Definition
from ackq.tasks.wire import SPECVERSION

#: The version of JSON Schema.
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def message_schema(definition: Definition, *, cloudevent: bool) -> dict[str, Any]:
    """Return the JSON Schema of a message that makes a worker call a task.

    Args:
        definition: of the task.
        cloudevent: of a CloudEvent instead of a message with ``task`` and ``args``.

    Raises:
        ConfigurationError: an annotation cannot be resolved, or has no form in JSON.
    """
    arguments, definitions = definition.arguments.schema()
    form = _event if cloudevent else _message
    members, required = form(definition.name, arguments)
    if arguments.get("required"):
        required.append("data" if cloudevent else "args")
    schema = {
        "$schema": DIALECT,
        "title": definition.name,
        "type": "object",
        "properties": members,
        "required": required,
    }
    if text := inspect.getdoc(definition.function):
        schema["description"] = text
    if definitions:
        schema["$defs"] = definitions
    return schema


def _message(name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    members = {
        "id": {
            "description": "Names the message. Chosen by ackq if it is not there.",
            "type": ["string", "integer"],
        },
        "task": {"const": name},
        "args": arguments,
        "expires_at": {
            "description": "Seconds since the epoch. After that, nobody handles the message.",
            "type": "number",
        },
    }
    return members, ["task"]


def _event(name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    members = {
        "id": {"type": "string", "minLength": 1},
        CLOUDEVENT: {"const": SPECVERSION},
        "type": {"const": name},
        "source": {"type": "string", "format": "uri-reference", "minLength": 1},
        "time": {"type": "string", "format": "date-time"},
        "datacontenttype": {"const": "application/json"},
        "expirytime": {"type": "string", "format": "date-time"},
        "data": arguments,
    }
    return members, ["id", CLOUDEVENT, "type", "source"]
