"""Structured logs of a worker: ids, sizes and errors, never a body.

Each record carries its fields as attributes, for any formatter. Text from a message or an error is
escaped in the record's text, so that it cannot forge another line.
"""

from __future__ import annotations

import copy
import logging
import traceback
from typing import Any

from ackq.core.failure import true
from ackq.errors import redact
from ackq.escaping import json_line, printable
from ackq.queue.messages import Message

log = logging.getLogger("ackq.worker")


def _handle(record: logging.LogRecord) -> None:
    """Pass a record on. What shows it may fail, as may the error in it, and no worker ends then."""
    try:
        logging.Logger.handle(log, record)
    except BaseException:
        if record.exc_info is not None:
            record.exc_info = None
            _handle(record)


log.handle = _handle  # type: ignore[method-assign]

_FIELDS = (
    "queue",
    "message_id",
    "task",
    "size",
    "receive_count",
    "outcome",
    "seconds",
    "error",
    "at",
    "outlook",
    "reason",
    "trace_id",
)


def fields_of(message: Message, **more: Any) -> dict[str, Any]:
    """Return the fields of a record about ``message``."""
    return {
        "queue": message.queue,
        "message_id": message.id,
        **({"task": task} if (task := message.task) else {}),
        "size": len(message.body),
        "receive_count": message.receive_count,
        **more,
        **({"trace_id": message.trace_id} if message.trace_id else {}),
    }


def about(
    level: int, event: str, message: Message, *, exc_info: BaseException | None = None, **more: Any
) -> None:
    """Log ``event`` about a message."""
    if not log.isEnabledFor(level):
        return
    fields = fields_of(message, **more)
    text = " ".join(f"{name}={_value(value)}" for name, value in fields.items())
    raised = exc_info and (type(exc_info), exc_info, true(exc_info, "__traceback__"))
    log.log(level, "%s %s", event, text, extra=fields, exc_info=raised)


def _value(value: Any) -> str:
    """Return a value as text, in quotes if its end would otherwise be unclear."""
    text = printable(value)
    return f'"{text}"' if not text or " " in text or '"' in text else text


def location_of(error: BaseException) -> str:
    """Return where an error was raised, as file:line of the innermost frame."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def reason_of(error: BaseException) -> str:
    """Return the type and text of a server or connection error, without credentials."""
    return f"{type(error).__name__}: {redact(str(error))}"


class TextFormatter(logging.Formatter):
    """One line per record. The lines of a traceback are escaped and indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s [%(process)d] %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text, with the traceback in this formatter's form."""
        own = copy.copy(record)
        own.exc_text = None  # may hold a traceback cached by another handler's formatter
        return super().format(own)

    def formatException(self, ei: Any) -> str:
        """Return a traceback in which no line can be mistaken for a record."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).split("\n"))


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        line: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        try:
            return json_line(line).decode()
        except TypeError:  # lone surrogates, which JSON cannot hold
            return json_line({name: printable(value) for name, value in line.items()}).decode()
