"""Log a failed handler: the error, the line in the user's code, and what happens next."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Literal

from ackq.core.failure import MAX_TEXT, Description, describe
from ackq.escaping import printable
from ackq.queue.messages import Message
from ackq.worker.logs import about
from ackq.worker.policy import NO_MORE_RECEIVES, Settlement

#: How much of an error to log: its type, its text too, or its traceback as well.
Detail = Literal["type", "text", "traceback"]


class Failures:
    """Logs the failures of one handler."""

    def __init__(self, handler: Callable[..., Any], detail: Detail) -> None:
        self._detail = detail
        self._defined = _definition_of(handler)
        self._package = str(getattr(handler, "__module__", "")).partition(".")[0]
        self._others: dict[Callable[..., Any], Failures] = {}

    def of(self, function: Callable[..., Any] | None) -> Failures:
        """Return what logs the failures of a function that the handler calls. None: its own."""
        if function is None:
            return self
        try:
            known = self._others.get(function)
        except Exception:  # its hash, which is the user's
            return self
        if known is None:
            known = self._others[function] = Failures(function, self._detail)
        return known

    def describe(self, error: BaseException, trace: bool) -> Description:
        """Return an error as plain text. This never raises.

        Its place is the innermost line of the user's code. An error raised before that code ran,
        such as one for a wrong signature, has none. Then it is where the handler is defined.
        """
        return describe(error, self._package, self._defined, trace)

    def log(
        self, message: Message, error: Description, outlook: str, raised: BaseException
    ) -> None:
        """Log that the handler failed.

        The text of an error may quote the message, so it is escaped and cropped.
        """
        about(
            logging.WARNING,
            "failed",
            message,
            error=error.name if self._detail == "type" else text_of(error),
            at=error.place.rpartition(" in ")[0],
            outlook=outlook,
            exc_info=raised if self._detail == "traceback" else None,
        )


def text_of(error: Description) -> str:
    """Return the type and text of an error as one cropped line."""
    text = printable(error.text)
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + "…"
    return f"{error.name}: {text}" if text else error.name


def outlook(message: Message, settlement: Settlement, limit: int | None) -> str:
    """Return what happens to a failed message, as in "retry 2 of 4 in 1.8 s"."""
    if message.lease_lost:
        return "its lease was lost"
    count = message.receive_count
    if settlement.verb == "reject" and settlement.argument != NO_MORE_RECEIVES:
        # The error's type stands beside it.
        return f"dead, {str(settlement.argument).partition(':')[0]}"
    if limit is not None and count >= limit:
        return f"dead after {count}"
    retries = f"retry {count}" if limit is None else f"retry {count} of {limit - 1}"
    return f"{retries} in {settlement.argument:.3g} s"


def _definition_of(handler: Callable[..., Any]) -> str:
    function = inspect.unwrap(getattr(handler, "func", handler))
    if not hasattr(function, "__code__"):
        function = getattr(type(function), "__call__", function)  # noqa: B004 - an object's call
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}" if code else ""
