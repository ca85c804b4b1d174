"""The form of a task in a message, which any language can write and read.

``{"id": …, "task": "images.resize", "args": {"path": "a.png", "width": 40}}``, or a CloudEvent,
whose ``type`` is the task and whose ``data`` are the arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson

from ackq.core.creation_time import CLOUDEVENT

#: The version of the CloudEvents specification that is written.
SPECVERSION = "1.0"
_NO_ARGUMENTS = msgspec.Raw(b"{}")


class Received(msgspec.Struct, gc=False):
    """The members of a message that a worker reads."""

    task: str = ""
    args: msgspec.Raw = _NO_ARGUMENTS
    #: Seconds since the epoch.
    expires_at: float | None = None
    specversion: str = ""
    type: str = ""
    data: msgspec.Raw = _NO_ARGUMENTS
    expirytime: datetime | None = None

    @property
    def name(self) -> str:
        """The name of the task; empty if the message names none."""
        return self.task or (self.type if self.specversion else "")

    @property
    def expiry(self) -> float | None:
        """When the message expires, in seconds since the epoch, or None."""
        if self.expirytime is not None:
            return self.expirytime.timestamp()
        return self.expires_at


#: Reads a body; raises `msgspec.MsgspecError`.
received = msgspec.json.Decoder(Received).decode


def written(
    task: str,
    arguments: bytes,
    id: str | int | None,
    expires: float | None,
    now: float,
    source: str | None = None,
) -> dict[str, Any]:
    """Return the message of a task.

    Args:
        task: its name.
        arguments: as JSON.
        id: of the message. None: the queue draws one.
        expires: seconds until it expires, or None.
        now: seconds since the epoch.
        source: of a CloudEvent. Defaults to None: the message is none.
    """
    message: dict[str, Any] = {} if id is None else {"id": id}
    if source is None:
        message |= {"task": task, "args": orjson.Fragment(arguments)}
        return message if expires is None else {**message, "expires_at": round(now + expires, 6)}
    message |= {
        CLOUDEVENT: SPECVERSION,
        "type": task,
        "source": source,
        "time": _rfc_3339(now),
        "datacontenttype": "application/json",
    }
    if expires is not None:
        message["expirytime"] = _rfc_3339(now + expires)
    return {**message, "data": orjson.Fragment(arguments)}


def _rfc_3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
