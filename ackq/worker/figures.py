"""What the handlers of a worker did: how many messages, and how long they took."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

#: Upper limits of the buckets of durations, in seconds. A last one holds what took longer.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


@dataclass(slots=True)
class Handled:
    """The figures of one queue."""

    #: Seconds that all handlers together took.
    seconds: float = 0.0
    #: How many took as long as each bucket says, and no longer than the bucket before.
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    #: How many ended with each outcome; see `ackq.worker.Hooks.after`.
    outcomes: dict[str, int] = field(default_factory=dict)

    def add(self, other: Handled) -> None:
        """Add the figures of another worker."""
        self.seconds += other.seconds
        self.buckets = [mine + more for mine, more in zip(self.buckets, other.buckets, strict=True)]
        for outcome, count in other.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + count


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
        self._finished: deque[tuple[str, str, float]] = deque()

    def add(self, queue: str, outcome: str, seconds: float) -> None:
        """Record the end of a handler. Safe from several threads at once, and takes no lock."""
        self._finished.append((queue, outcome, seconds))

    def count(self) -> None:
        """Count what was recorded. Call this every now and then, or the record grows."""
        with self._lock:
            while self._finished:
                queue, outcome, seconds = self._finished.popleft()
                handled = self._queues.setdefault(queue, Handled())
                handled.seconds += seconds
                handled.buckets[bisect_left(BUCKETS, seconds)] += 1
                handled.outcomes[outcome] = handled.outcomes.get(outcome, 0) + 1

    def snapshot(self) -> Snapshot:
        """Return all figures."""
        self.count()
        copy = Snapshot(self.since, busy=self.busy, concurrency=self.concurrency)
        with self._lock:
            copy.add_ended(Snapshot(self.since, self._queues))
        return copy
