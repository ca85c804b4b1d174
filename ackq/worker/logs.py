"""Structured logs of a worker: ids and sizes, never a body, nor an error's text that may quote it.

Each record carries its fields as attributes, for any formatter; `JsonFormatter` is one.
"""

from __future__ import annotations

import logging
import traceback
from typing import Any

import orjson

from ackq.errors import redact
from ackq.message import Message

log = logging.getLogger("ackq.worker")

_FIELDS = ("queue", "message_id", "size", "receive_count", "outcome", "seconds", "error", "at")


def fields_of(message: Message, **more: Any) -> dict[str, Any]:
    """Return what a record about ``message`` carries."""
    return {
        "queue": message.queue,
        "message_id": message.id,
        "size": len(message.body),
        "receive_count": message.receive_count,
        **more,
    }


def about(level: int, event: str, message: Message, **more: Any) -> None:
    """Log ``event`` about a message."""
    if log.isEnabledFor(level):
        fields = fields_of(message, **more)
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        log.log(level, "%s %s", event, text, extra=fields)


def place_of(error: BaseException) -> str:
    """Return where an error was raised, as file:line of the innermost frame."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def reason_of(error: BaseException) -> str:
    """Return what a server or connection error says, without credentials."""
    return f"{type(error).__name__}: {redact(str(error))}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        line: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        return orjson.dumps(line, default=str).decode()
