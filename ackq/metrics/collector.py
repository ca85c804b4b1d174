"""`Collector`: the figures of queues as Prometheus metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence

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
from ackq.metrics.families import Families, Family, Labels
from ackq.metrics.queues import queue_metrics
from ackq.ops.attention.model import Trouble, troubles_of_server
from ackq.ops.attention.watch import Attention
from ackq.ops.chronicle.recorder import Recorder
from ackq.ops.overview import Overview, Server, Snapshot
from ackq.ops.reads import SharedRead

log = logging.getLogger("ackq.metrics")

#: Seconds for which consumers go on counting after a scrape. Longer than any usual interval
#: between scrapes, or each scrape would begin a new count.
WINDOW = 900.0
#: Seconds after which a server that has not answered is reported as down. Prometheus gives up after
#: 10 by default, and would then learn nothing.
MAX_TIME = 5.0


class Collector(RegistryCollector, Closable):
    """Reads the queues of a server or cluster whenever metrics are collected.

    Nothing is stored between two collections except the names of the queues that were found. If
    Redis cannot be reached, or does not answer within 5 seconds, ``ackq_up`` is 0 and the figures
    of queues are missing: no old figure is reported. Safe to share between threads: collections
    at the same time share one reading.

    >>> prometheus_client.REGISTRY.register(ackq.metrics.Collector(client))  # doctest: +SKIP
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        names: Sequence[str] = (),
        *,
        totals: bool = True,
        history: bool = True,
        time_field: str | None = None,
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or of any node of the cluster.
            names: the queues to report, of any kind; RSMQ's as ``<namespace>:<queue>``. If empty,
                all that are found, see `ackq.ops.overview.Overview`. Defaults to all.
            totals: let consumers of list and delay queues count what they do, for 15 minutes
                after each collection. Without it, these have no counters. Defaults to True.
            history: keep the figures of each minute in Redis for a day, for the page. Needs
                ``totals``. Defaults to True.
            time_field: the field of the bodies with the time of creation, as in `ackq.Queue`, for
                ``ackq_oldest_ready_seconds``. Defaults to None: only the time of CloudEvents.

        Raises:
            QueueNameError: a name cannot be a queue's.
            ConfigurationError: the time field's name cannot be used.
        """
        window = WINDOW if totals else None
        self._overview = Overview(client, names, window=window, time_field=time_field)
        self._attention = Attention(client)
        self._troubles: tuple[Trouble, ...] = ()
        self._recorder = Recorder(client) if totals and history else None
        self._reads = SharedRead(self._read)

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering a collector does not ask Redis."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics. 4 or 5 round trips for 100 queues."""
        return (family.metric() for family in self.families())

    def families(self) -> Families:
        """Return what `collect` yields, in the form that is quickly written as text."""
        try:
            return self._reads.get(MAX_TIME, join=True)
        except TimeoutError:
            log.warning("metrics: no answer within %g s", MAX_TIME)
        except (redis.RedisError, AckqError) as error:
            log.warning("metrics: %s", redact(str(error)) or type(error).__name__)
        servers = tuple(Server(address, False) for address in self._overview.addresses())
        # What is known of queues goes on.
        troubles = [*self._troubles, *troubles_of_server("", None, False, {})]
        return Families(_all_metrics(Snapshot(servers, (), False, 0), troubles, MAX_TIME))

    def _read(self) -> Families:
        started = time.perf_counter()
        snapshot = self._overview.read()
        troubles = self._troubles = self._attention.look(snapshot)
        if self._recorder is not None and snapshot.up:
            self._recorder.note(snapshot)
        return Families(_all_metrics(snapshot, troubles, time.perf_counter() - started))

    def prepare(self) -> None:
        """Search for queues, so that the first collection is quick. No error if Redis is away.

        Raises:
            NoPermissionError: no queues were named, and the user may not search for them.
        """
        self._reads.get(None)

    def close(self) -> None:
        """Close the connections."""
        self._overview.close()
        self._attention.close()
        if self._recorder is not None:
            self._recorder.close()


def _all_metrics(
    snapshot: Snapshot, troubles: Iterable[Trouble], seconds: float
) -> Iterator[Family]:
    yield from queue_metrics(snapshot.queues)
    # Queues of two kinds may share a name.
    pairs = dict.fromkeys((each.key.kind, each.key.queue) for each in troubles)
    names = ("kind", "queue")
    yield Family(
        "ackq_trouble",
        "gauge",
        "1 while something needs a person, by the kind of trouble.",
        names,
        labels=[Labels.of(names, pair) for pair in pairs],
        numbers=[1 for _ in pairs],
    )
    yield from _server_metrics(snapshot)
    yield Family(
        "ackq_scrape_seconds",
        "gauge",
        "Time that this collection took, in seconds.",
        numbers=[seconds],
    )


def _server_metrics(snapshot: Snapshot) -> Iterator[Family]:
    labels = [Labels.of(("server",), (server.address,)) for server in snapshot.servers]
    yield Family(
        "ackq_up",
        "gauge",
        "1 if the server could be read.",
        ("server",),
        labels=labels,
        numbers=[int(server.up) for server in snapshot.servers],
    )
    yield Family(
        "ackq_script_errors",
        "counter",
        "Script calls that failed since the server started, those of other programs included.",
        ("server",),
        labels=labels,
        numbers=[server.failed_scripts for server in snapshot.servers],
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
