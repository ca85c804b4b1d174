"""Recognise loops and calls that the drop-in cannot protect, and warn of them once."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from ackq.dropin.call_stack import Line
from ackq.errors import ConfigurationError

log = logging.getLogger("ackq.dropin")

#: Nanoseconds in which nothing can have been done with a message that would outlive the process.
NO_WORK = 20_000
#: So many such messages in a row are a batch that is being collected.
IN_A_ROW = 10
#: Bytes or characters of the longest message that is kept to see whether the program keeps it too.
SHORT = 64 * 1024
#: Most lists of which one consumer has messages in flight at a time, without a warning.
MANY_LISTS = 100
#: What a client may do about a loop that collects messages.
COLLECT = ("warn", "refuse", "hold")
#: Most warnings of one client.
MAX_WARNINGS = 1000

COLLECTED = (
    "messages of {name!r} are collected to be worked on later, or handed to another thread, task or"
    " process: {sign}. ackq takes asking for the next message as a sign that the last one is done,"
    " so a kill loses them. Put the popping and the work into `with r.batch({name!r}):`, work on"
    " each message before you pop the next, or use `Redis(..., collect='hold', hold=n)`"
)
#: The signs of it.
STILL_REFERENCED = "the program still refers to the last {count} while it asks for the next"
NO_TIME = "{count} in a row were asked for within microseconds of each other"
MAY_COLLECT = (
    "`{found}` stands between a pop from {name!r} and the next one. If this loop collects messages"
    " before it works on them, or hands them to another thread, task or process, a kill loses them,"
    " because ackq takes asking for the next message as a sign that the last one is done: use"
    " `with r.batch({name!r}):` or `Redis(..., collect='hold', hold=n)`. If each message is done"
    " before the next is popped, nothing is lost"
)
FOR_ANOTHER_THREAD = (
    "a message of {name!r} is popped by a thread of a pool for another thread or task, so ackq"
    " cannot see when the work on it is done. In asyncio code, use"
    " `await ackq.dropin.asyncio.Redis(...).brpop({name!r})`; in threads, pop and work in the same"
    " function"
)
JOB_RETURNED = (
    "a message of {name!r} is popped by a job of a thread pool that has returned since. It stays"
    " leased until the same thread of the pool asks for the next one, and is delivered again after"
    " a kill. Settle it in the job: put the popping and the work into `with r.batch({name!r}):`"
)
MANY = (
    "one thread or task has messages of more than {count} lists in flight, now of {name!r}, as if"
    " each list were made for one message. Each message stays leased until the same list is asked"
    " for the next. For lists that are used once, pop inside `with r.batch({name!r}):`, or pop from"
    " the redis-py client itself"
)
BOTH_ENDS = (
    "{command} pops from one end of {name!r} while another consumer pops from the other end. ackq"
    " protects the messages of one end, so this one pops without protection, as with redis-py."
    " Let all consumers pop from the same end"
)
MOVED = (
    "{command} takes messages from {name!r} past ackq, which does not protect them. Where it"
    " guards against crashes, use brpop or rpop instead, without a processing list: ackq.dropin"
    " keeps a popped message until it is done"
)

AFTER_MOVE = (
    "this client moves messages into {name!r} and pops from it. If such a pop is an"
    " acknowledgement, call `settle({name!r})` of the client after it: otherwise it takes effect"
    " when the next message is popped, and a kill before that delivers this one again"
)


class UnprotectedWarning(UserWarning):
    """A call or a loop that the drop-in does not protect. Each is reported once per list."""


class Reports:
    """The warnings that a client has given."""

    def __init__(self) -> None:
        self._given: set[tuple[str, str]] = set()
        #: Lists into which the program moves messages.
        self.moved_into: set[str] = set()

    def warn(self, text: str, name: str, find: Callable[[], Line], **fields: object) -> None:
        """Warn with ``text`` of list ``name``, once, at the line that ``find`` returns.

        `MAY_COLLECT` is given once for each line, since it is about the loop.
        """
        line = find() if text is MAY_COLLECT else None
        given = text, name if line is None else str(line)
        if given in self._given or len(self._given) >= MAX_WARNINGS:
            return
        self._given.add(given)
        line = line or find()
        message = text.format(name=name, **fields)
        warnings.warn_explicit(message, UnprotectedWarning, line.path, line.number)


class Collect(NamedTuple):
    """What to do about a loop that asks for the next message before it is done with the last."""

    #: Raise instead of warning.
    refuse: bool = False
    #: The number of messages that stay leased until as many newer ones were popped. 0: none.
    hold: int = 0

    @classmethod
    def of(cls, collect: str, hold: int | None) -> Collect:
        """Return what the settings ``collect`` and ``hold`` of a client mean.

        Raises:
            ConfigurationError: they mean nothing.
        """
        if collect not in COLLECT:
            raise ConfigurationError(f"collect must be one of {', '.join(COLLECT)}: {collect!r}")
        if (collect == "hold") is (hold is None):
            raise ConfigurationError("collect='hold' needs hold=, and nothing else takes it")
        if hold is not None and (type(hold) is not int or hold < 1):
            raise ConfigurationError(f"hold must be a whole number from 1: {hold!r}")
        return cls(collect == "refuse", hold or 0)


class Signs:
    """Signs that one consumer asks for the next message before it is done with the last."""

    __slots__ = ("_before", "_given_at", "_kept", "_last", "_quick")

    def __init__(self) -> None:
        self._given_at = self._kept = self._quick = 0
        self._before: Any = None
        self._last: Any = None

    def given(self, value: Any) -> None:
        """Note that a message is given to the consumer now, as ``value``."""
        # Python has only one of each of the shortest values.
        self._before, self._last = self._last, value if 1 < len(value) < SHORT else None
        self._given_at = time.perf_counter_ns()

    def asked(self) -> str | None:
        """Note that the next message is asked for; return the sign of a collection, if any."""
        if self._given_at:
            soon = time.perf_counter_ns() - self._given_at < NO_WORK
            self._quick = self._quick + 1 if soon else 0
            # Not the last one, to which a variable of the loop refers.
            self._kept = self._kept + 1 if self.references() > _ALONE else 0
            self._given_at = 0
        if self._kept >= IN_A_ROW:
            return STILL_REFERENCED.format(count=self._kept)
        return NO_TIME.format(count=self._quick) if self._quick >= IN_A_ROW else None

    def references(self) -> int:
        """Return how many references there are to the message before the last, with these."""
        return 0 if self._before is None else sys.getrefcount(self._before)

    @classmethod
    def alone(cls) -> int:
        """Return the `references` of an object that nothing else refers to."""
        signs = cls()
        signs._before = object()
        return signs.references()


#: Interpreters count differently.
_ALONE = Signs.alone()
