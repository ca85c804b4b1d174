"""The form of a task in a message, which any language can write and read.

``{"id": …, "task": "images.resize", "args": {"path": "a.png", "width": 40}}``, or a CloudEvent,
whose ``type`` is the task and whose ``data`` are the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson

from ackq.config import Seconds, in_seconds
from ackq.core.creation_time import CLOUDEVENT
from ackq.errors import ConfigurationError

#: The version of the CloudEvents specification that is written.
SPECVERSION = "1.0"
_URI = re.compile("[!-~]+")
_NO_ARGUMENTS = msgspec.Raw(b"{}")


class Received(msgspec.Struct, gc=False):
    """The members of a message that a worker reads. Others are ignored."""

    task: str = ""
    args: msgspec.Raw = _NO_ARGUMENTS
    #: Seconds since the epoch.
    expires_at: float | None = None


class _Event(msgspec.Struct, gc=False):
    """The members of a CloudEvent that a worker reads."""

    specversion: str = ""
    type: str = ""
    data: msgspec.Raw = _NO_ARGUMENTS
    #: The data of a producer that writes bytes, here JSON; they arrive decoded.
    data_base64: bytes | None = None
    #: Without a zone, it is in UTC.
    expirytime: datetime | None = None


_received = msgspec.json.Decoder(Received).decode
_event = msgspec.json.Decoder(_Event).decode


def received(body: bytes) -> Received:
    """Read a body. A message that names a task is no CloudEvent, whatever else it has.

    Raises:
        msgspec.MsgspecError: it is neither.
    """
    try:
        read = _received(body)
        if read.task:
            return read
        event = _event(body)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    time = event.expirytime
    if time is not None:
        time = time.replace(tzinfo=time.tzinfo or UTC)
    return Received(
        event.type if event.specversion else "",
        event.data if event.data_base64 is None else msgspec.Raw(event.data_base64),
        None if time is None else time.timestamp(),
    )


def written(
    task: str,
    arguments: bytes,
    id: str | int | None,
    expires_at: float | None,
    now: float,
    source: str | None = None,
) -> dict[str, Any]:
    """Return the message of a task.

    Args:
        task: its name.
        arguments: as JSON.
        id: of the message. None: the queue draws one.
        expires_at: seconds since the epoch after which nobody handles it, or None.
        now: seconds since the epoch.
        source: of a CloudEvent. Defaults to None: the message is none.
    """
    message: dict[str, Any] = {} if id is None else {"id": id}
    if source is None:
        message |= {"task": task, "args": orjson.Fragment(arguments)}
        return message if expires_at is None else {**message, "expires_at": round(expires_at, 6)}
    if id is not None:
        message["id"] = str(id)  # that of a CloudEvent is text
    message |= {
        CLOUDEVENT: SPECVERSION,
        "type": task,
        "source": source,
        "time": _rfc_3339(now),
        "datacontenttype": "application/json",
    }
    if expires_at is not None:
        message["expirytime"] = _rfc_3339(expires_at)
    return {**message, "data": orjson.Fragment(arguments)}


def check_source(source: str) -> str:
    """Return the source of CloudEvents.

    Raises:
        ConfigurationError: it is no URI.
    """
    if not _URI.fullmatch(source):
        raise ConfigurationError(
            f"source is a URI without spaces, such as '//example.org/shop', not {source!r}"
        )
    return source


def expiry(expires: Seconds | None, now: float, options: Mapping[str, Any]) -> float | None:
    """Return when a message expires, in seconds since the epoch: counted from when it is due."""
    if expires is None:
        return None
    at = options.get("at") or now
    due = at.timestamp() if isinstance(at, datetime) else at
    return float(max(now, due) + in_seconds(options.get("delay") or 0) + in_seconds(expires))


def _rfc_3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
