"""`Watcher`: the newest sample of all queues, for all who look."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import redis

from ackq.errors import redact
from ackq.ops.attention.model import arranged, troubles_of_server
from ackq.ops.attention.watch import Attention
from ackq.ops.chronicle.recorder import Recorder
from ackq.ops.overview import Overview, Snapshot
from ackq.ops.reads import SharedRead
from ackq.ops.samples import Sample, Sampler, interval_for

#: Shortest time between two samples, in seconds.
MIN_INTERVAL = 2.0
#: Seconds for which consumers count what they do after a sample.
WINDOW = 150.0
#: Seconds after which a page shows the last sample instead of waiting longer for Redis, and seconds
#: for which it waits for the first one, which is preceded by a search.
MAX_TIME, MAX_FIRST = 3.0, 10.0
#: How many seconds `Watcher.close` waits for a sample that is being taken.
CLOSING = 1.0


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
        record: bool = True,
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or of any node of the cluster.
            names: the queues to show; all that are found if empty.
            time_field: as in `ackq.Queue`.
            record: keep what happens in each minute, in Redis.
        """
        overview = Overview(client, names, window=WINDOW, time_field=time_field)
        self._sampler = Sampler(overview, Attention(client), curves=True)
        self._recorder = Recorder(client) if record else None
        self._sampling = threading.Lock()
        self._reads = SharedRead(self._read)
        #: Guards what follows.
        self._lock = threading.Lock()
        #: What pages show, and until when they need no other sample, by a monotonic clock.
        self._sample: Sample | None = None
        self._fresh_until = 0.0
        #: The last sample with figures.
        self._known: Sample | None = None
        #: Since when Redis has not answered.
        self._waiting_since: float | None = None

    def sample(self) -> Sample:
        """Return the newest sample; take one if it is time.

        If no server can be read, or none answers within 3 seconds (10 for the first sample), it is
        the last sample with figures, which says so: its `trouble` has the reason, and it is
        `outdated`.

        Raises:
            NoPermissionError: no queues were named, and the user may not search for them.
        """
        with self._lock:
            if self._sample is not None and time.monotonic() < self._fresh_until:
                return self._sample
            limit = MAX_TIME if self._known else MAX_FIRST
            since = self._waiting_since
        # A look has already waited for the sample that is being taken.
        late = since is not None and time.monotonic() - since > limit
        try:
            return self._reads.get(0.0 if late else limit)
        except TimeoutError:
            with self._lock:
                return self._outdated(f"no answer within {limit:g} s")

    def refresh(self) -> None:
        """Let the next call take a sample, since something was changed."""
        with self._lock:
            self._fresh_until = 0.0

    def close(self) -> None:
        """Close the connections, and forget the samples. The next look starts over."""
        with self._lock:
            self._sample = self._known = None
        if self._sampling.acquire(timeout=CLOSING):
            self._sampler.close()
            if self._recorder is not None:
                self._recorder.close()
            self._sampling.release()

    def _read(self) -> Sample:
        with self._lock:
            if self._sample is not None and time.monotonic() < self._fresh_until:
                return self._sample  # taken since this one was asked for
            self._waiting_since = time.monotonic()
        try:
            with self._sampling:
                taken = self._sampler.take()
                if self._recorder is not None and taken.snapshot.up:
                    self._recorder.note(taken.snapshot)
        finally:
            with self._lock:
                self._waiting_since = None
        trouble = trouble_of(taken.snapshot)
        with self._lock:
            if taken.snapshot.up:
                self._sample = self._known = replace(taken, trouble=trouble)
            else:
                self._sample = self._outdated(trouble)
            self._fresh_until = time.monotonic() + interval_of(self._sample)
            return self._sample

    def _outdated(self, trouble: str) -> Sample:
        empty = Sample(Snapshot((), (), False, 0), (), at=time.time(), times=(time.monotonic(),))
        known = self._known or empty
        down = troubles_of_server("Redis", redis.ConnectionError(trouble), False, {})
        troubles = arranged([*down, *known.troubles])
        return replace(known, trouble=trouble, troubles=troubles, outdated=True)


def trouble_of(snapshot: Snapshot) -> str:
    """Return which servers cannot be read, and why; empty if all can."""
    return "; ".join(
        f"{each.address}: {redact(str(each.problem)) or type(each.problem).__name__}"
        for each in snapshot.servers
        if not each.up
    )


def interval_of(sample: Sample) -> float:
    """Return the seconds until a newer sample can be had."""
    return interval_for(len(sample.rows), MIN_INTERVAL)
