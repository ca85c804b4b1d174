"""The task that a message names, by its body: what ``ackq.tasks`` and other producers write."""

from __future__ import annotations

import re

from ackq.core.creation_time import CLOUDEVENT, object_of

#: Longest body that is parsed for its task, in bytes, and longest name, in characters.
MAX_READ, MAX_NAME = 65_536, 200
_EVENT = CLOUDEVENT.encode()
#: A body that begins with an id and a task, as most do: no need to parse the rest.
_FIRST = re.compile(rb'\{"id": ?"[ !#-\[\]-~]{1,512}", ?"task": ?"([ !#-\[\]-~]{1,200})"')


def task_of(body: bytes) -> str | None:
    """Return the member ``task`` of a JSON object, or the ``type`` of a CloudEvent, if it is text.

    None if there is none, if it is longer than 200 characters, or if the body is over 64 KiB and
    does not begin with an id and the task.
    """
    # Most bodies that name no task end here: workers ask for every message.
    if b'"task"' in body:
        if matched := _FIRST.match(body):
            return matched[1].decode()
    elif _EVENT not in body:
        return None
    if len(body) > MAX_READ:
        return None
    parsed = object_of(body)
    name = parsed.get("task") or (parsed.get("type") if CLOUDEVENT in parsed else None)
    return name if isinstance(name, str) and 0 < len(name) <= MAX_NAME else None
