"""Histories, sorted by message: what was asked and answered about each."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .log import Event, read

#: States of a request that may have been applied.
POSSIBLE = ("ok", "gone", "unknown")
#: What an operator does to chosen messages.
CHOSEN = ("run now", "cancel", "delete", "reschedule", "redrive", "drop")


@dataclass(slots=True)
class Push:
    """One request that stores messages."""

    by: tuple[str, str]  #: the process, and the thread or task
    call: int
    begin: float
    delay: float
    kept: bool
    end: float = math.inf
    state: str = "unknown"


@dataclass(slots=True)
class Take:
    """One request that received messages."""

    by: tuple[str, str]
    begin: float
    end: float
    deliveries: list[Delivery] = field(default_factory=list)


@dataclass(slots=True)
class Settle:
    """One request that settles messages, or extends their leases."""

    kind: str
    begin: float
    delay: float
    end: float = math.inf
    state: str = "unknown"


@dataclass(slots=True)
class Delivery:
    """One message, received once."""

    story: Story
    take: Take
    sum: int
    count: int | None
    until: float | None
    settles: list[Settle] = field(default_factory=list)

    def had(self, *kinds: str) -> bool:
        """Whether a settle of this kind may have been applied."""
        return any(settle.kind in kinds and settle.state in POSSIBLE for settle in self.settles)

    def may_have_had(self, *kinds: str) -> bool:
        """Whether a settle that returns the message may have been applied.

        A client that got no reply asks again, and may be refused since it did so the first time.
        """
        return any(settle.kind in kinds and settle.state != "fail" for settle in self.settles)


@dataclass(slots=True)
class Story:
    """Everything about one message; of a topic, about one message and one consumer id."""

    name: str
    sum: int = 0
    pushes: list[tuple[Push, int]] = field(default_factory=list)  #: with the position in each
    deliveries: list[Delivery] = field(default_factory=list)
    group: str | None = None
    #: What an operator did to it: `CHOSEN`.
    chosen: list[Settle] = field(default_factory=list)

    def was(self, verb: str, *states: str) -> list[Settle]:
        """Return what an operator did of this kind, with an outcome of these states."""
        return [each for each in self.chosen if each.kind == verb and each.state in states]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault after which answers may be undone, or leases and delays end early."""

    kind: str
    begin: float
    end: float
    since: float | None
    clock: bool


class History:
    """All that a run wrote."""

    def __init__(self, folder: Path) -> None:
        #: lease, readers, order, fenced, shared, max_receives, drain_within; see `rules`. With
        #: groups: group_in_flight, group_stops, group_turns, max_in_flight; see `grouped`.
        #: gives_back, if a supervisor returns what a process had that died.
        self.settings: dict[str, Any] = json.loads((folder / "settings.json").read_text())
        self.readers: list[str] = self.settings.get("readers") or [""]
        self.stories: dict[tuple[str, str], Story] = {}
        #: Takes of each thread or task, in order.
        self.takes: defaultdict[tuple[str, str], list[Take]] = defaultdict(list)
        self.faults: list[Fault] = []
        self.struck: Counter[str] = Counter()
        self.left: Event | None = None
        #: When groups were resumed.
        self.resumed: defaultdict[str, list[Settle]] = defaultdict(list)
        #: What producers and readers say is stored where in a topic.
        self.places: defaultdict[int, list[tuple[Push | Take, str, str]]] = defaultdict(list)
        for path in sorted((folder / "history").iterdir()):
            _File(self, path).read()
        self.faults.sort(key=lambda each: each.end)

    def story(self, reader: str, name: str) -> Story:
        key = reader, name
        found = self.stories.get(key)
        if found is None:
            found = self.stories[key] = Story(name)
        return found


class _File:
    """One file of a history, while it is read."""

    def __init__(self, history: History, path: Path) -> None:
        self._history = history
        self._path = path
        self._tokens: dict[int, Delivery] = {}
        self._calls: dict[int, tuple[Push | Settle, list[Any]]] = {}

    def read(self) -> None:
        handlers = {
            "push": self._push,
            "take": self._take,
            "end": self._end,
            "fault": self._fault,
            "left": self._left,
            "resume": self._resume,
            **dict.fromkeys(CHOSEN, self._choose),
        }
        for event in read(self._path):
            handlers.get(event["do"], self._settle)(event)

    def _push(self, event: Event) -> None:
        push = Push(
            (self._path.name, event["by"]),
            event["call"],
            event["begin"],
            event.get("delay", 0.0),
            event.get("kept", False),
        )
        for reader in self._history.readers:
            for at, (name, body) in enumerate(zip(event["ids"], event["sums"], strict=True)):
                story = self._history.story(reader, name)
                story.sum = body
                story.pushes.append((push, at))
                if "groups" in event:
                    story.group = event["groups"][at]
        self._calls[event["call"]] = push, event["ids"]

    def _take(self, event: Event) -> None:
        take = Take((self._path.name, event["by"]), event["begin"], event["end"])
        reader = event.get("reader", "")
        self._history.takes[take.by].append(take)
        for name, body, count, until in event["got"]:
            story = self._history.story(reader, name)
            delivery = Delivery(story, take, body, count, until)
            story.deliveries.append(delivery)
            take.deliveries.append(delivery)
        self._tokens.update(enumerate(take.deliveries, event["first"]))
        if "index" in event:
            for at, (name, *_) in enumerate(event["got"], event["index"]):
                self._history.places[at].append((take, reader, name))

    def _settle(self, event: Event) -> None:
        settle = Settle(event["do"], event["begin"], event.get("delay", 0.0))
        for token in event["of"]:
            self._tokens[token].settles.append(settle)
        self._calls[event["call"]] = settle, event["of"]

    def _choose(self, event: Event) -> None:
        chosen = Settle(event["do"], event["begin"], event.get("delay", 0.0))
        for name in event["ids"]:
            self._history.story("", name).chosen.append(chosen)
        self._calls[event["call"]] = chosen, event["ids"]

    def _resume(self, event: Event) -> None:
        resumed = Settle(event["do"], event["begin"], 0.0)
        for group in event["ids"]:
            self._history.resumed[group].append(resumed)
        self._calls[event["call"]] = resumed, event["ids"]

    def _end(self, event: Event) -> None:
        request, about = self._calls.pop(event["call"])
        request.end, request.state = event["end"], event["state"]
        if isinstance(request, Push):
            if "index" in event:
                for at, name in enumerate(about, event["index"]):
                    self._history.places[at].append((request, "", name))
            return
        for state in ("refused", "unknown"):
            for token in event.get(state, ()):  # only some of the call
                settles = self._tokens[token].settles
                settles[settles.index(request)] = Settle(
                    request.kind, request.begin, request.delay, request.end, state
                )

    def _fault(self, event: Event) -> None:
        self._history.struck[event["kind"]] += event.get("times", 1)
        if event.get("since") is not None or event.get("clock"):
            self._history.faults.append(
                Fault(
                    event["kind"],
                    event["begin"],
                    event["end"],
                    event.get("since"),
                    event.get("clock", False),
                )
            )

    def _left(self, event: Event) -> None:
        self._history.left = event
