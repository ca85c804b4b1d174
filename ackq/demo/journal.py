"""A process's journal: one JSON line per event, appended, never changed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

Event = dict[str, Any]


class Journal:
    """Append events to a file of its own.

    Guarantee: once `write` returns, the events survive SIGKILL of the writer, since the process
    has no buffer. An interrupted write leaves a line without a newline, which is not read.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, events: Iterable[Event]) -> None:
        """Append the events in order."""
        data = memoryview(b"".join(orjson.dumps(event) + b"\n" for event in events))
        while data:
            data = data[os.write(self._file, data) :]


class Reader:
    """Read the events of a journal, as far as they are written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Event]:
        """Return the events since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        complete = content[: content.rfind(b"\n") + 1]
        self._offset += len(complete)
        return [orjson.loads(line) for line in complete.splitlines()]
