"""What the handlers of a worker did: how many messages, how old, and how long they took."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

from ackq.ops.chronicle.durations import BUCKETS

#: Upper limits of the buckets of times in the queue, in seconds. A last one holds longer ones.
WAIT_BUCKETS = (
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1800.0,
    3600.0,
    21_600.0,
    86_400.0,
)


@dataclass(slots=True)
class Handled:
    """The figures of one queue."""

    #: Seconds that all handlers together took.
    seconds: float = 0.0
    #: How many took as long as each bucket says, and no longer than the bucket before.
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    #: Seconds that messages were in the queue before these deliveries, of those whose age is known.
    waited: float = 0.0
    #: How many of these waited as long as each bucket of `WAIT_BUCKETS` says.
    waits: list[int] = field(default_factory=lambda: [0] * (len(WAIT_BUCKETS) + 1))
    #: How many ended with each outcome; see `ackq.worker.Hooks.after`.
    outcomes: dict[str, int] = field(default_factory=dict)

    def add(self, other: Handled) -> None:
        """Add the figures of another worker."""
        self.seconds += other.seconds
        self.buckets = _sums(self.buckets, other.buckets)
        self.waited += other.waited
        self.waits = _sums(self.waits, other.waits)
        for outcome, count in other.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + count


def _sums(some: list[int], more: list[int]) -> list[int]:
    return [one + other for one, other in zip(some, more, strict=True)]


@dataclass(slots=True)
class Snapshot:
    """The figures of one or more workers."""

    #: When counting began, in seconds since the epoch by this machine's clock.
    since: float
    queues: dict[str, Handled] = field(default_factory=dict)
    #: How many handlers run, and how many can run at the same time.
    busy: int = 0
    concurrency: int = 0

    def add(self, other: Snapshot) -> None:
        """Add the figures of another worker, which is running."""
        self.add_ended(other)
        self.busy += other.busy
        self.concurrency += other.concurrency

    def add_ended(self, other: Snapshot) -> None:
        """Add the counts of another worker, which has ended."""
        for name, handled in other.queues.items():
            self.queues.setdefault(name, Handled()).add(handled)


class Figures:
    """Counts what the handlers of one worker do."""

    def __init__(self) -> None:
        self.since = time.time()
        self.busy = self.concurrency = 0
        self._queues: dict[str, Handled] = {}
        self._lock = threading.Lock()
        self._finished: deque[tuple[str, str, float, float | None, str]] = deque()

    def add(
        self, queue: str, outcome: str, seconds: float, waited: float | None, task: str = ""
    ) -> None:
        """Record the end of a handler. Safe from several threads at once, and takes no lock.

        Args:
            queue: the name of the message's queue.
            outcome: see `ackq.worker.Hooks.after`.
            seconds: how long the handler took.
            waited: how long the message was in the queue; None: unknown.
            task: the kind of work. Defaults to none.
        """
        self._finished.append((queue, outcome, seconds, waited, task))

    def count(self) -> None:
        """Count what was recorded. Call this every now and then, or the record grows."""
        with self._lock:
            while self._finished:
                queue, outcome, seconds, waited, task = self._finished.popleft()
                name = f"{queue}\0{task}" if task else queue
                handled = self._queues.setdefault(name, Handled())
                handled.seconds += seconds
                handled.buckets[bisect_left(BUCKETS, seconds)] += 1
                if waited is not None:
                    handled.waited += waited
                    handled.waits[bisect_left(WAIT_BUCKETS, waited)] += 1
                handled.outcomes[outcome] = handled.outcomes.get(outcome, 0) + 1

    def snapshot(self) -> Snapshot:
        """Return all figures."""
        self.count()
        copy = Snapshot(self.since, busy=self.busy, concurrency=self.concurrency)
        with self._lock:
            copy.add_ended(Snapshot(self.since, self._queues))
        return copy
