"""What the handlers of workers did, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)


class HandledByQueue(Protocol):
    """The figures of one queue; see `ackq.worker.figures.Handled`."""

    seconds: float
    buckets: list[int]
    outcomes: dict[str, int]


def handler_metrics(
    queues: Mapping[str, HandledByQueue], limits: Sequence[float], since: float
) -> Iterator[Metric]:
    """Yield the metrics of handlers.

    Args:
        queues: what was handled, by queue.
        limits: the upper limits of the buckets, in seconds.
        since: when counting began, in seconds since the epoch.
    """
    seconds = HistogramMetricFamily(
        "ackq_handler_seconds", "Time that handlers took, in seconds.", labels=("queue",)
    )
    handled = CounterMetricFamily(
        "ackq_handled",
        "Messages handled, by outcome: ack, nack, reject, release, or lost (its lease).",
        labels=("queue", "outcome"),
    )
    names = [*map(str, limits), "+Inf"]
    for name, each in sorted(queues.items()):
        buckets = list(zip(names, accumulate(each.buckets), strict=True))
        seconds.add_metric((name,), buckets, each.seconds)
        for outcome, count in sorted(each.outcomes.items()):
            handled.add_metric((name, outcome), count, created=since)
    yield from (seconds, handled)


def slot_metrics(busy: int, concurrency: int) -> Iterator[Metric]:
    """Yield how many handlers run, and how many can run at the same time."""
    yield GaugeMetricFamily("ackq_worker_busy", "Handlers that run now.", busy)
    yield GaugeMetricFamily(
        "ackq_worker_concurrency", "Handlers that can run at the same time.", concurrency
    )
