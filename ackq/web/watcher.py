"""`Watcher`: the newest sample of all queues, for all who look."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import redis

from ackq.ops.overview import Overview
from ackq.ops.samples import Sample, Sampler, interval_for

#: Most queues that are shown.
MAX_QUEUES = 5000
#: Shortest time between two samples, in seconds.
MIN_INTERVAL = 2.0
#: Seconds for which consumers count what they do after a sample.
WINDOW = 150.0


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
        overview = Overview(client, names, window=WINDOW, time_field=time_field, most=MAX_QUEUES)
        self._sampler = Sampler(overview, curves=True)
        self._lock = threading.Lock()
        self._sample: Sample | None = None
        self._fresh = True

    def look(self) -> Sample:
        """Return the newest sample; take one if it is time.

        Raises:
            NoPermissionError: no queues were named, and the user may not search for them.
        """
        with self._lock:
            last = self._sample
            if (
                last is None
                or not self._fresh
                or time.monotonic() - last.times[-1] >= interval_of(last)
            ):
                last = self._sample = self._sampler.take()
                self._fresh = True
            return last

    def look_anew(self) -> None:
        """Let the next look take a sample, since something was changed."""
        with self._lock:
            self._fresh = False

    def close(self) -> None:
        """Close the connections, and forget the samples. The next look starts over."""
        with self._lock:
            self._sampler.close()
            self._sample = None


def interval_of(sample: Sample) -> float:
    """Return the seconds until a newer sample can be had."""
    return interval_for(len(sample.rows), MIN_INTERVAL)
