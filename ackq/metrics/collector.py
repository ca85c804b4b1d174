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
from ackq.metrics.families import Family
from ackq.ops.overview import Overview, Server, Snapshot
from ackq.ops.readings import Reading

log = logging.getLogger("ackq.metrics")

#: Seconds for which consumers go on counting after a scrape. Longer than any usual interval
#: between scrapes, or each scrape would begin a new count.
WINDOW = 900.0
#: Labels of what every kind of queue has.
_QUEUE = ("queue", "kind")

#: The counters, by the name that `Totals` has for them, with their help.
COUNTERS = {
    "pushed": "Messages pushed.",
    "taken": "Messages taken, each delivery counted.",
    "acked": "Messages acked.",
    "returned": "Messages delivered again because a lease had ended.",
    "nacked": "Messages returned with nack, to be tried again.",
    "released": "Messages returned with release; these deliveries do not count.",
    "redriven": "Dead letters that were made ready again.",
    "dropped": "Messages deleted by a purge, a cancel, or the retention of a topic.",
    "dead_dropped": "Dead letters deleted.",
}
#: Most reasons of dead letters that one queue reports; the rest is "other".
MOST_REASONS = 20


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
        yield from _queue_metrics(snapshot.queues)
        yield from _server_metrics(snapshot)
        seconds = time.perf_counter() - started
        yield _single("ackq_scrape_seconds", "Time that this collection took, in seconds.", seconds)

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


def _queue_metrics(queues: Sequence[Reading]) -> Iterator[Family]:
    messages = Family(
        "ackq_messages", "gauge", "Messages by state, as in ackq stats.", labels=(*_QUEUE, "state")
    )
    backlog = Family(
        "ackq_backlog",
        "gauge",
        "Messages that need a consumer now: ready and in flight, without claims.",
        labels=_QUEUE,
    )
    paused = Family("ackq_paused", "gauge", "1 while the queue is paused.", labels=_QUEUE)
    overdue = Family(
        "ackq_lease_overdue_seconds",
        "gauge",
        "Time since the first lease ended whose message was not delivered again; 0 if none.",
        labels=_QUEUE,
    )
    oldest = Family(
        "ackq_oldest_ready_seconds",
        "gauge",
        "Time for which the oldest ready message has been ready; missing if it is not known.",
        labels=_QUEUE,
    )
    workers = Family(
        "ackq_workers", "gauge", "Worker processes that take from the queue.", labels=_QUEUE
    )
    lag = Family(
        "ackq_topic_lag",
        "gauge",
        "Messages that a consumer of a topic is behind.",
        labels=("queue", "consumer"),
    )
    position = Family(
        "ackq_topic_position",
        "gauge",
        "Index of the last message that a consumer of a topic committed.",
        labels=("queue", "consumer"),
    )
    lag_seconds = Family(
        "ackq_topic_lag_seconds",
        "gauge",
        "Age of the message that a consumer of a topic reads next; missing if it is not known.",
        labels=("queue", "consumer"),
    )
    for each in queues:
        labels = (each.name, each.kind)
        for state, count in each.states.items():
            messages.add((*labels, state), count)
        backlog.add(labels, each.backlog)
        if each.paused is not None:
            paused.add(labels, each.paused)
        if each.overdue is not None:
            overdue.add(labels, each.overdue)
        if each.oldest_ready is not None:
            oldest.add(labels, each.oldest_ready)
        if each.workers is not None:
            workers.add(labels, each.workers)
        for consumer, behind in each.lags.items():
            lag.add((each.name, consumer), behind)
        for consumer, age in each.lag_seconds.items():
            lag_seconds.add((each.name, consumer), age)
        for consumer, index in each.positions.items():
            position.add((each.name, consumer), index)
    yield from (messages, backlog, paused, overdue, oldest, workers, lag, lag_seconds, position)
    yield from _counters(queues)
    yield _dead(queues)


def _counters(queues: Sequence[Reading]) -> Iterator[Family]:
    for name, help in COUNTERS.items():
        family = Family(f"ackq_{name}", "counter", help, labels=_QUEUE)
        for each in queues:
            if each.totals is not None and name in each.totals.counts:
                labels = (each.name, each.kind)
                family.add(labels, each.totals.counts[name], each.totals.since)
        yield family


def _dead(queues: Sequence[Reading]) -> Family:
    family = Family(
        "ackq_dead",
        "counter",
        "Messages that became dead letters, by reason.",
        labels=(*_QUEUE, "reason"),
    )
    for each in queues:
        if each.totals is None:
            continue
        reasons = sorted(each.totals.dead.items())
        if rest := sum(count for _, count in reasons[MOST_REASONS:]):
            reasons = [*reasons[:MOST_REASONS], ("other", rest)]
        for reason, count in reasons:
            family.add((each.name, each.kind, reason), count, each.totals.since)
    return family


def _server_metrics(snapshot: Snapshot) -> Iterator[Family]:
    up = Family("ackq_up", "gauge", "1 if the server could be read.", labels=("server",))
    errors = Family(
        "ackq_script_errors",
        "counter",
        "Script calls that failed since the server started, those of other programs included.",
        labels=("server",),
    )
    for each in snapshot.servers:
        up.add((each.address,), each.up)
        if each.failed_scripts is not None:
            errors.add((each.address,), each.failed_scripts)
    yield from (up, errors)
    yield _single("ackq_search_complete", "1 if all keys have been searched for queues.",
                  snapshot.complete)  # fmt: skip
    yield _single("ackq_queues_left_out", "Queues above the limit, or with a key of a wrong type.",
                  snapshot.left_out)  # fmt: skip


def _single(name: str, help: str, value: float) -> Family:
    family = Family(name, "gauge", help)
    family.add((), value)
    return family
