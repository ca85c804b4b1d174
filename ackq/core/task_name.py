"""The task that a message names, by its body: what ``ackq.tasks`` and other producers write."""

from __future__ import annotations

import re

import orjson

from ackq.core.creation_time import CLOUDEVENT

#: A body that begins with an id and a task, as most do: no need to parse the rest.
_FIRST = re.compile(rb'\{"id": ?"[ !#-\[\]-~]{1,512}", ?"task": ?"([ !#-\[\]-~]{1,512})"')


def task_of(body: bytes) -> str | None:
    """Return the member ``task`` of a JSON object, or the ``type`` of a CloudEvent; else None."""
    if matched := _FIRST.match(body):
        return matched[1].decode()
    try:
        parsed = orjson.loads(body)
    except ValueError:
        return None
    if not isinstance(parsed, dict):
        return None
    name = parsed.get("task") or (parsed.get("type") if CLOUDEVENT in parsed else None)
    return name if isinstance(name, str) else None
