"""Totals of the journals, counted while they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ackq.demo.journal import Event

#: One delivery of a message: its lease key and the receipt from the pop.
Delivery = tuple[str, int]


@dataclass
class PushTally:
    """The messages of one producer that Redis confirmed, by fingerprint of the body."""

    pushed: Counter[str] = field(default_factory=Counter)

    def add(self, events: Iterable[Event]) -> None:
        """Count more events of this producer."""
        for event in events:
            self.pushed.update(event["bodies"])


@dataclass
class WorkTally:
    """The work of one worker, by fingerprint of the body.

    ``digests`` are the results of a serial pass; the worker's results are compared with them as
    they are read. ``held`` are the deliveries that the worker took and has not settled.
    """

    digests: Mapping[str, str]
    processed: Counter[str] = field(default_factory=Counter)
    acked: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    gone: int = 0
    acking: bool = False
    held: dict[Delivery, bool] = field(default_factory=dict)
    redelivered: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    unearned: list[str] = field(default_factory=list)

    def add(self, events: Iterable[Event]) -> None:
        """Count more events of this worker, in the order of its journal."""
        for event in events:
            getattr(self, f"_{event['event']}")(event, (event["key"], event["receipt"]))

    def _took(self, event: Event, delivery: Delivery) -> None:
        self.held[delivery] = False
        self.acking = False
        if event["count"] > 1:
            self.redelivered[event["key"]] += 1

    def _done(self, event: Event, delivery: Delivery) -> None:
        self.held[delivery] = True
        self.processed[event["body"]] += 1
        if self.digests.get(event["body"]) != event["digest"]:
            self.wrong.append(event["key"])

    def _acking(self, event: Event, delivery: Delivery) -> None:
        self.acking = True

    def _acked(self, event: Event, delivery: Delivery) -> None:
        self.acked[event["body"]] += 1
        if not self.held.pop(delivery, False):
            self.unearned.append(event["key"])

    def _gone(self, event: Event, delivery: Delivery) -> None:
        self.gone += 1
        self.held.pop(delivery, None)

    def _refused(self, event: Event, delivery: Delivery) -> None:
        self.refused += 1
        self.held.pop(delivery, None)


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: ``1 message``, ``2,000 messages``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
