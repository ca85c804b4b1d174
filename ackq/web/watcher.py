"""`Watcher`: the figures of all queues now, and of the last samples."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import redis

from ackq.ops.overview import Overview, Snapshot
from ackq.ops.rates import interval_for, rates
from ackq.ops.readings import Reading
from ackq.web import history
from ackq.web.history import Curves, History

#: Most queues that are shown.
MOST_QUEUES = 5000
#: Shortest time between two samples, in seconds.
SHORTEST = 2.0
#: Seconds for which consumers count what they do after a sample.
WINDOW = 150.0
#: The counts whose rates are shown.
COUNTED = ("pushed", "taken", "acked")

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """A queue, with its messages per second and its curves."""

    reading: Reading
    #: By name in `COUNTED`; None if unknown.
    rates: Mapping[str, float | None]
    curves: Curves

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.reading.name


@dataclass(frozen=True, slots=True)
class View:
    """All queues at one time."""

    #: By this machine's clock, in seconds since the epoch.
    at: float
    #: Seconds until a newer one can be had.
    interval: float
    rows: tuple[Row, ...]
    snapshot: Snapshot
    #: When the samples were taken, oldest first, by a monotonic clock. A queue that was found later
    #: has fewer of them.
    times: Sequence[float]

    def row(self, kind: str, name: str) -> Row | None:
        """Return a queue, or None if it is not there."""
        for each in self.rows:
            if (each.reading.kind, each.reading.name) == (kind, name):
                return each
        return None


class Watcher:
    """Reads the queues when somebody looks, and no more often than `interval_for` allows.

    All who look share the samples, so more open pages do not cost Redis more. When nobody looks,
    nothing is read. Safe to share between threads.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        names: Sequence[str] = (),
        time_field: str | None = None,
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or of any node of the cluster.
            names: the queues to show; all that are found if empty.
            time_field: as in `ackq.Queue`.
        """
        self._overview = Overview(
            client, names, window=WINDOW, time_field=time_field, most=MOST_QUEUES
        )
        self._lock = threading.Lock()
        self._view: View | None = None
        self._read_at = 0.0
        self._fresh = True
        self._history: dict[Key, History] = {}
        self._times: deque[float] = deque(maxlen=history.SAMPLES)

    def look(self) -> View:
        """Return the newest sample; take one if it is time.

        Raises:
            NoPermissionError: no queues were named, and the user may not search for them.
        """
        with self._lock:
            view, age = self._view, time.monotonic() - self._read_at
            if view is None or age >= view.interval or not self._fresh:
                view = self._view = self._sample(view)
                self._fresh = True
            return view

    def look_anew(self) -> None:
        """Let the next look take a sample, since something was changed."""
        with self._lock:
            self._fresh = False

    def _sample(self, before: View | None) -> View:
        snapshot = self._overview.read()
        read_at, self._read_at = self._read_at, time.monotonic()
        last = {_key(each.reading): each.reading for each in before.rows} if before else {}
        self._times.append(self._read_at)
        rows = tuple(
            self._row(reading, last.get(_key(reading)), self._read_at - read_at)
            for reading in snapshot.queues
        )
        kept = {_key(each) for each in snapshot.queues}
        self._history = {key: each for key, each in self._history.items() if key in kept}
        interval = interval_for(len(rows), SHORTEST)
        return View(time.time(), interval, rows, snapshot, tuple(self._times))

    def _row(self, now: Reading, before: Reading | None, seconds: float) -> Row:
        found = rates(now, before, seconds)
        speeds = {name: found[name] for name in COUNTED}
        left = speeds["acked"] if speeds["acked"] is not None else speeds["taken"]
        speed = speeds["pushed"] if now.kind == "topic" else left
        if (samples := self._history.get(key := _key(now))) is None:
            samples = self._history[key] = History()
        return Row(now, speeds, samples.add(now, speed, self._read_at))

    def close(self) -> None:
        """Close the connections, and forget the samples. The next look starts over."""
        with self._lock:
            self._overview.close()
            self._view, self._history = None, {}
            self._times.clear()


def _key(reading: Reading) -> Key:
    return reading.kind, reading.name
