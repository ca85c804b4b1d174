"""Warn once of each call that the drop-in passes on without protecting its message."""

from __future__ import annotations

import sys
import warnings

#: Most lists of which one consumer has messages in flight at a time, without a warning.
MANY_LISTS = 100
#: Most warnings of one client.
MAX_WARNINGS = 1000

MANY = (
    "one thread or task has messages of more than {count} lists in flight, now of {name!r}, as if"
    " each list were made for one message. Each message stays leased until the same list is asked"
    " for the next. For lists that are used once, call `settle({name!r})` of the client when the"
    " work is done, or pop from the redis-py client itself"
)
BOTH_ENDS = (
    "{command} pops from one end of {name!r} while another consumer pops from the other end. ackq"
    " protects the messages of one end, so this one pops without protection, as with redis-py."
    " Let all consumers pop from the same end"
)
TAKEN = (
    "{command} takes messages from {name!r} past ackq, which does not protect them. Use rpop or"
    " brpop of the client itself instead, not in a pipeline and without a processing list:"
    " ackq.dropin keeps a popped message until it is done"
)
AFTER_MOVE = (
    "this client moves messages into {name!r} and pops from it. If such a pop is an"
    " acknowledgement, call `settle({name!r})` of the client after it: otherwise it takes effect"
    " when the next message is popped, and a kill before that delivers this one again"
)


class UnprotectedWarning(UserWarning):
    """A call that the drop-in does not protect. Each is reported once per list."""


class Reports:
    """The warnings that a client has given."""

    def __init__(self) -> None:
        self._given: set[tuple[str, str]] = set()
        #: Lists into which the program moves messages.
        self.moved_into: set[str] = set()

    def warn(self, text: str, name: str, **fields: object) -> None:
        """Warn with ``text`` of list ``name``, once, at the line of the user's code that calls."""
        if (text, name) in self._given or len(self._given) >= MAX_WARNINGS:
            return
        self._given.add((text, name))
        frame = sys._getframe()
        while frame.f_back and _is_library(frame.f_globals.get("__name__", "")):
            frame = frame.f_back
        message, path = text.format(name=name, **fields), frame.f_code.co_filename
        warnings.warn_explicit(message, UnprotectedWarning, path, frame.f_lineno)


def _is_library(module: str) -> bool:
    return module.startswith(("ackq.dropin.", "redis."))
