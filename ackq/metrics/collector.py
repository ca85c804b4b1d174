"""`Collector`: the figures of queues as Prometheus metrics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence

import redis

try:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector as RegistryCollector
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "ackq.metrics needs prometheus-client: pip install 'ackq[metrics]'"
    ) from error

from ackq.core.client import Closable
from ackq.errors import AckqError, redact
from ackq.metrics.families import Family, Labels
from ackq.metrics.queues import queue_metrics
from ackq.ops.overview import Overview, Server, Snapshot

log = logging.getLogger("ackq.metrics")

#: Seconds for which consumers go on counting after a scrape. Longer than any usual interval
#: between scrapes, or each scrape would begin a new count.
WINDOW = 900.0


class Collector(RegistryCollector, Closable):
    """Reads the queues of a server or cluster whenever metrics are collected.

    Nothing is stored between two collections except the names of the queues that were found. If
    Redis cannot be reached, ``ackq_up`` is 0 and the figures of queues are missing: no old figure
    is reported. Safe to share between threads; collections run one after the other.

    >>> prometheus_client.REGISTRY.register(ackq.metrics.Collector(client))  # doctest: +SKIP
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        names: Sequence[str] = (),
        *,
        totals: bool = True,
        time_field: str | None = None,
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or of any node of the cluster.
            names: the queues to report, of any kind; RSMQ's as ``<namespace>:<queue>``. If empty,
                all that are found, see `ackq.ops.overview.Overview`. Defaults to all.
            totals: let consumers of list and delay queues count what they do, for 15 minutes
                after each collection. Without it, these have no counters. Defaults to True.
            time_field: the field of the bodies with the time of creation, as in `ackq.Queue`, for
                ``ackq_oldest_ready_seconds``. Defaults to None: only the time of CloudEvents.

        Raises:
            QueueNameError: a name cannot be a queue's.
            ConfigurationError: the time field's name cannot be used.
        """
        window = WINDOW if totals else None
        self._overview = Overview(client, names, window=window, time_field=time_field)
        self._lock = threading.Lock()

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering a collector does not ask Redis."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics. 4 or 5 round trips for 100 queues."""
        return (each.metric() for each in self.families())

    def families(self) -> Iterator[Family]:
        """Yield what `collect` yields, in the form that is quickly written as text."""
        started = time.perf_counter()
        with self._lock:
            try:
                snapshot = self._overview.read()
            except (redis.RedisError, AckqError) as error:
                log.warning("metrics: %s", redact(str(error)) or type(error).__name__)
                snapshot = Snapshot((Server("", False),), (), False, 0)
        yield from queue_metrics(snapshot.queues)
        yield from _server_metrics(snapshot)
        seconds = time.perf_counter() - started
        yield Family(
            "ackq_scrape_seconds",
            "gauge",
            "Time that this collection took, in seconds.",
            numbers=[seconds],
        )

    def prepare(self) -> None:
        """Search for queues, so that the first collection is quick. No error if Redis is away.

        Raises:
            NoPermissionError: no queues were named, and the user may not search for them.
        """
        with self._lock:
            self._overview.read()

    def close(self) -> None:
        """Close the connections."""
        self._overview.close()


def _server_metrics(snapshot: Snapshot) -> Iterator[Family]:
    labels = [Labels.of(("server",), (each.address,)) for each in snapshot.servers]
    yield Family(
        "ackq_up",
        "gauge",
        "1 if the server could be read.",
        ("server",),
        labels=labels,
        numbers=[int(each.up) for each in snapshot.servers],
    )
    yield Family(
        "ackq_script_errors",
        "counter",
        "Script calls that failed since the server started, those of other programs included.",
        ("server",),
        labels=labels,
        numbers=[each.failed_scripts for each in snapshot.servers],
        since=[None for _ in snapshot.servers],
    )
    yield Family(
        "ackq_search_complete",
        "gauge",
        "1 if all keys have been searched for queues.",
        numbers=[int(snapshot.complete)],
    )
    yield Family(
        "ackq_queues_left_out",
        "gauge",
        "Queues above the limit, or with a key of a wrong type.",
        numbers=[snapshot.left_out],
    )
