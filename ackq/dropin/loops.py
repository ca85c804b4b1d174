"""Recognise loops and calls that the drop-in cannot protect, and warn of them once."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable

from ackq.dropin.call_stack import Line

log = logging.getLogger("ackq.dropin")

#: Nanoseconds in which nothing can have been done with a message that would outlive the process.
NO_WORK = 20_000
#: So many such messages in a row are a batch that is being collected.
IN_A_ROW = 10
#: Most lists of which one consumer has messages in flight at a time, without a warning.
MANY_LISTS = 100
#: Most warnings of one client.
MOST_WARNINGS = 1000

COLLECTED = (
    "messages of {name!r} are asked for within microseconds of each other, as if they were"
    " collected to be worked on later, or handed to another thread. ackq takes asking for the next"
    " message as a sign that the last one is done, so a kill loses them. Put the popping and the"
    " work into `with r.batch({name!r}):`, or work on each message before you pop the next"
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
        """Warn with ``text`` of list ``name``, once, at the line that ``find`` returns."""
        if (text, name) in self._given or len(self._given) >= MOST_WARNINGS:
            return
        self._given.add((text, name))
        line = find()
        message = text.format(name=name, **fields)
        warnings.warn_explicit(message, UnprotectedWarning, line.path, line.number)


class Pace:
    """How fast one consumer asks for the messages of one list."""

    __slots__ = ("_given_at", "_in_a_row")

    def __init__(self) -> None:
        self._given_at = self._in_a_row = 0

    def asks(self) -> bool:
        """Note that the next message is asked for; return whether a batch is being collected."""
        if not self._given_at:
            return False
        if time.perf_counter_ns() - self._given_at < NO_WORK:
            self._in_a_row += 1
        else:
            self._in_a_row = 0
        self._given_at = 0
        return self._in_a_row >= IN_A_ROW

    def given(self) -> None:
        """Note that a message is given to the consumer now."""
        self._given_at = time.perf_counter_ns()
