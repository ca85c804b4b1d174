"""Find messages for a page or the API: `Wanted` describes them, and a `Search` looks for them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from ackq.core.inspection_results import Found
from ackq.core.search_terms import WITHIN, fields_of
from ackq.errors import EXPECTED, ConfigurationError, redact
from ackq.ops.kinds import opened
from ackq.ops.kinds.kind import Redis, Verb

#: Most messages that a search for fields returns.
LIMIT = 100
#: Longest text that is searched for.
MAX_TEXT = 4096
#: Joins two conditions.
AND = " & "
#: What looks like a condition; ids may contain = too.
_CONDITION = re.compile(r"[\w.-]+=.")
#: The states in what `Kind.stats` returns.
_STATES = ("ready", "in_flight", "delayed", "dead", "msgs")
By = Literal["auto", "id", "fields"]
#: Most searches at a time, since each occupies a thread.
MAX_RUNNING = 4
#: Seconds between two reports of progress, and after which a search is given up.
INTERVAL, MAX_TIME = 0.3, 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages of a queue to find."""

    kind: str
    name: str
    #: An id, or conditions on the fields of a body.
    text: str
    #: Which of the two the text is. Auto: conditions, if it looks like one.
    by: By = "auto"
    #: Number of messages to look through in each state; None: all.
    within: int | None = WITHIN

    @property
    def where(self) -> dict[str, Any]:
        """The fields that are searched for; empty if it is an id."""
        if self.by == "id" or (self.by == "auto" and not _CONDITION.match(self.text)):
            return {}
        return fields_of(self.text.split(AND))

    @property
    def verb(self) -> Verb:
        """What the kind of queue must support."""
        return "search" if self.where else "find"


class Searches:
    """Runs searches, a few at a time. Safe to share between threads."""

    def __init__(self, client: Redis) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or of its cluster.
        """
        self._client = client
        self._free = threading.BoundedSemaphore(MAX_RUNNING)

    def search(self, wanted: Wanted) -> Search:
        """Return a search; it begins with `Search.run` or `Search.steps`."""
        return Search(self, wanted)

    @contextmanager
    def place(self) -> Iterator[Redis]:
        """Yield the client to a search, if not too many are running.

        Raises:
            ConfigurationError: too many are running.
        """
        if not self._free.acquire(blocking=False):
            raise ConfigurationError(f"{MAX_RUNNING} searches are running: try again soon")
        try:
            yield self._client
        finally:
            self._free.release()


class _GivenUp(Exception):
    """Nobody waits for the result."""


@dataclass(slots=True)
class Search:
    """A search and its result."""

    searches: Searches
    wanted: Wanted
    matches: list[Found] = field(default_factory=list)
    #: The number of messages it has looked at so far, and the most it will look at.
    looked: int = 0
    total: int = 0
    #: Whether the queue has more messages than that.
    partly: bool = False
    #: Why there is no result; empty if there is one.
    problem: str = ""
    _until: float = 0.0
    #: Whether nobody waits for the result.
    _left: bool = False

    def steps(self) -> Iterator[int]:
        """Search in another thread; yield how many messages it has looked at, until it ends."""
        over = threading.Event()

        def work() -> None:
            try:
                self.run()
            except EXPECTED as error:
                self.problem = redact(str(error)) or type(error).__name__
            except _GivenUp:
                pass
            finally:
                over.set()

        threading.Thread(target=work, name="ackq-web-search", daemon=True).start()
        try:
            while not over.wait(INTERVAL):
                yield self.looked
        finally:  # the browser may have gone
            self._left = True

    def run(self) -> None:
        """Search in this thread, to the end.

        Raises:
            ConfigurationError: it cannot be searched for, or it takes too long.
            AckqError, RedisError: it failed.
        """
        wanted = self.wanted
        self._until = time.monotonic() + MAX_TIME
        settings = {"within": wanted.within, "on_progress": self._note}
        with (
            self.searches.place() as client,
            opened(client, wanted.kind, wanted.name, wanted.verb) as queue,
        ):
            stats, where = queue.kind.stats(queue.client), wanted.where
            searched = _STATES if where or not queue.kind.looks_up_ids else ("dead",)
            counts = [stats[state] for state in searched if state in stats]
            self.total = sum(min(wanted.within or count, count) for count in counts)
            self.partly = self.total < sum(counts)
            if where:
                self.matches = queue.client.search(where, limit=LIMIT, **settings)
            else:
                self.matches = queue.client.find_all(wanted.text, **settings)

    def _note(self, count: int) -> None:
        self.looked += count
        if self._left:
            raise _GivenUp
        if time.monotonic() > self._until:
            raise ConfigurationError(
                f"{self.looked:,} messages were searched in {MAX_TIME:.0f} s, and the search was"
                " given up: use ackq find or ackq search, which have no time limit"
            )
