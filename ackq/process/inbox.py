"""The pipe through which the supervisor gives messages to the process that runs suspects."""

from __future__ import annotations

import os
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress

import orjson

from ackq.worker.suspects import Suspect

#: Bytes that are read at a time.
_CHUNK = 65_536


def written(suspect: Suspect) -> bytes:
    """Return a suspect as a line. It is shorter than what a pipe takes as a whole."""
    fields = suspect._replace(key=b64encode(suspect.key))
    return orjson.dumps([*fields[:2], fields.key.decode(), *fields[3:]]) + b"\n"


class Inbox:
    """The end that is read, at the standard input of the process."""

    def __init__(self, patience: float) -> None:
        """Read from now on without waiting.

        Args:
            patience: seconds without a suspect after which the process may end.
        """
        self._end = os.dup(0)
        os.set_blocking(self._end, False)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)  # handlers cannot read it, nor what they start
        self._patience = patience
        self._rest = b""
        self._idle_since = time.monotonic()

    def read(self) -> Iterator[Suspect]:
        """Yield those that are new."""
        with suppress(BlockingIOError):
            self._rest += os.read(self._end, _CHUNK)
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            number, queue, key, *others = orjson.loads(line)
            yield Suspect(number, queue, b64decode(key), *others)

    def is_over(self, idle: bool) -> bool:
        """Return whether none have come for a while."""
        now = time.monotonic()
        if not idle:
            self._idle_since = now
        return now - self._idle_since > self._patience

    def close(self) -> None:
        """Take no more: the supervisor keeps what it can no longer write."""
        os.close(self._end)
