"""What becomes of a message before its task is called: who handles it, or why nobody does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ackq.errors import InvalidArguments
from ackq.queue.messages import Message
from ackq.tasks.arguments import UnknownArgument
from ackq.tasks.definition import Definition
from ackq.tasks.policy import Later
from ackq.tasks.wire import Received, received
from ackq.worker.logs import about
from ackq.worker.verdicts import Again, Reject, verdict_in

#: The times that a message with an unknown task or argument is given back before it is dead.
UNKNOWN_TRIES = 20
#: After this many times ``unknown_for``, an id is that of another message.
FORGOTTEN_AFTER = 10
#: Most messages with an unknown task or argument that are remembered; the oldest is forgotten.
REMEMBERED = 10_000


class Dropped(Exception):
    """The message has expired, and its task drops such messages."""


@dataclass(slots=True)
class Intake:
    """Finds the task of each message."""

    definitions: Mapping[str, Definition]
    #: Seconds for which messages with an unknown task or argument are given back.
    unknown_for: float
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    #: When these messages were first and last seen here, by queue and key.
    _seen: dict[tuple[str, bytes], tuple[float, float]] = field(default_factory=dict)

    def admit(self, message: Message) -> tuple[Definition, Any]:
        """Return the task of a message and its arguments; see `Arguments.decode`.

        Raises:
            Reject: the message does not fit its task, or has expired.
            Later: its task, or one of its arguments, is not known here yet; or the task pauses.
            Dropped: it has expired, and is to be acked.
        """
        try:
            read = received(message.body)
        except msgspec.MsgspecError as error:
            raise _misfit(message, f"not a task: {error}") from None
        name = read.task
        definition = self.definitions.get(name)
        if definition is None:
            if not name:
                raise _misfit(message, "not a task: the message names none")
            raise self._unknown(message, f"unknown task {name!r}")
        message.terms = definition.terms
        if definition.expires is not None or read.expires_at is not None:
            _check_expiry(message, read, definition)
        if definition.circuit is not None and (pause := definition.circuit.wait()):
            raise Later(pause)
        try:
            return definition, definition.arguments.decode(read.args)
        except UnknownArgument as error:
            raise self._unknown(message, error.reason) from None
        except InvalidArguments as error:
            raise _misfit(message, error.reason) from None

    def _unknown(self, message: Message, what: str) -> Exception:
        """Return a verdict: another process, or this one after an update, may know this."""
        key = (message.queue, message.key)
        now = self.clock()
        first, last = self._seen.pop(key, (now, now))
        if now - last > FORGOTTEN_AFTER * self.unknown_for:
            first = now
        if now - first < self.unknown_for:
            self._seen[key] = first, now
            while len(self._seen) > REMEMBERED:
                del self._seen[next(iter(self._seen))]
            return Later(self.unknown_for / UNKNOWN_TRIES)
        return _misfit(message, f"{what} for {self.unknown_for:g} s")


def ended(definition: Definition, message: Message, error: BaseException | None) -> None:
    """Record how the call of a task ended, for its breaker.

    A verdict says nothing about the service that the task needs, unless it counts as a failure.
    A call over its time limit has failed, even if it returned. One whose lease was lost was
    interrupted.
    """
    circuit, verdict = definition.circuit, verdict_in(error)
    if circuit is None or message.lease_lost:
        return
    if verdict is not None and not issubclass(type(verdict), Again):
        return
    if error is None and message.timed_out:
        error = TimeoutError()
    if circuit.ended(error):
        about(
            logging.WARNING,
            "its task pauses",
            message,
            outlook=f"after {circuit.breaker.failures} failures in a row",
        )


def _check_expiry(message: Message, read: Received, definition: Definition) -> None:
    if read.expires_at is not None:
        expired = (message.taken_at or time.time()) >= read.expires_at
    else:
        # Another producer pushed it, and may have written the time.
        age, longest = message.time_in_queue, definition.expires
        expired = age is not None and longest is not None and age > longest
    if expired and definition.on_expiry == "drop":
        raise Dropped
    if expired:
        raise Reject("expired")


def _misfit(message: Message, reason: str) -> Reject:
    about(logging.WARNING, "does not fit", message, error=reason)
    return Reject(reason)
