"""What the processes of a run write down: one JSON line for each event.

Times are seconds of a clock that all processes share. A request that may
change something is written twice: before it is sent, and with its outcome. So a killed process
leaves a request without an outcome, which may have been applied or not.

| event | fields besides ``do`` |
|---|---|
| ``push`` | ``call``, ``by``, ``begin``, ``ids``, ``sums`` (checksums of the bodies), ``groups``: of each message, or null, ``delay`` in s, ``kept``: no fault may undo it, once confirmed |
| ``take`` | ``by``, ``begin``, ``end``, ``first``: the token of the first message, ``got``: a list of [id, checksum, receive count, end of the lease by the server's clock] (the last two may be null), ``reader`` and ``index`` for topics. The last consumer also writes takes that got nothing although messages were stored |
| ``ack``, ``nack``, ``release``, ``extend``, ``reject`` | ``call``, ``begin``, ``of``: tokens of the same process |
| ``run now``, ``cancel``, ``delete``, ``reschedule``, ``redrive``, ``drop`` | ``call``, ``begin``, ``ids`` of stored messages, of which ``cancel`` makes dead letters and ``delete`` none, or of dead letters, ``delay`` in s |
| ``resume`` | ``call``, ``begin``, ``ids`` of groups that dead letters stop |
| ``end`` | ``call``, ``end``, ``state``: ok, gone (settled before), refused, unknown or fail (certainly not applied), ``refused``, ``unknown``: tokens, ``index`` of the first for topics |
| ``fault`` | ``kind``, ``begin``, ``end``, ``since``: answers from then on may be undone, or null; ``clock``: leases and delays may end early |
| ``left`` | ``messages``: how many are still stored, ``dead``: ids, ``findings``: what an audit found, ``keys``: that should not be there, ``rows``: ids of what Spark wrote, ``totals`` that the queue counted and ``reasons`` of the dead with their numbers |
"""  # noqa: E501

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

Event = dict[str, Any]

#: CLOCK_MONOTONIC, which all processes of a machine share.
now = time.monotonic


class Log:
    """The history of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._tokens = 0

    def now(self) -> float:
        """Return the time."""
        raise NotImplementedError

    def append(self, line: bytes) -> None:
        """Append a line."""
        raise NotImplementedError

    def write(self, **event: Any) -> None:
        """Append an event."""
        self.append(orjson.dumps(event) + b"\n")

    def begin(self, do: str, **event: Any) -> int:
        """Write that a request is about to be sent; return the number of the call."""
        with self._lock:
            self._calls += 1
            call = self._calls
        self.write(do=do, call=call, begin=self.now(), **event)
        return call

    def end(self, call: int, state: str, **event: Any) -> None:
        """Write the outcome of a request."""
        self.write(do="end", call=call, end=self.now(), state=state, **event)

    def took(self, got: Sequence[Any], **event: Any) -> int:
        """Write that messages were received; return the token of the first."""
        with self._lock:
            first = self._tokens
            self._tokens += len(got)
        self.write(do="take", end=self.now(), first=first, got=got, **event)
        return first


class FileLog(Log):
    """A history in a file, written at once, so that a killed process leaves all of it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def now(self) -> float:
        return now()

    def append(self, line: bytes) -> None:
        os.write(self._file, line)


def read(path: Path) -> Iterator[Event]:
    """Yield the events of a file, without a line that a kill cut short."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield orjson.loads(line)
