"""A process's journal, one JSON line per event, and the totals that are counted from it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

Event = dict[str, Any]
#: One delivery of a message: its lease key and the receipt from the pop.
Delivery = tuple[str, int]


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


@dataclass
class Tally:
    """What one process did, by fingerprint of the body; ``redelivered`` by lease key.

    ``digests`` are the results of a serial pass; a worker's results are compared with them.
    ``held`` are the deliveries that it took and has not settled, and whether it did the work.
    """

    digests: Mapping[str, str]
    pushed: Counter[str] = field(default_factory=Counter)
    processed: Counter[str] = field(default_factory=Counter)
    acked: Counter[str] = field(default_factory=Counter)
    redelivered: Counter[str] = field(default_factory=Counter)
    held: dict[Delivery, bool] = field(default_factory=dict)
    acking: bool = False
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    unearned: list[str] = field(default_factory=list)

    def add(self, events: Iterable[Event]) -> None:
        """Count more events, in the order of the journal."""
        for event in events:
            if event["event"] == "pushed":
                self.pushed.update(event["bodies"])
            elif event["event"] == "acking":
                self.acking = True
            else:
                self._count(event, event["key"], event["body"])

    def _count(self, event: Event, key: str, body: str) -> None:
        delivery = key, event["receipt"]
        match event["event"]:
            case "took":
                self.held[delivery] = self.acking = False
                self.redelivered[key] += event["count"] > 1
            case "done":
                self.held[delivery] = True
                self.processed[body] += 1
                self.wrong += [key] if self.digests.get(body) != event["digest"] else []
            case result:
                worked = self.held.pop(delivery, False)
                self.acked[body] += result == "acked"
                self.refused += result == "refused"
                self.unearned += [key] if result == "acked" and not worked else []


def total(counters: Iterable[Counter[str]]) -> Counter[str]:
    """Return the sum of counters."""
    return sum(counters, Counter())


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: ``1 message``, ``2,000 messages``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
