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
    waited: float
    waits: list[int]
    outcomes: dict[str, int]


def handler_metrics(
    queues: Mapping[str, HandledByQueue],
    limits: Sequence[float],
    wait_limits: Sequence[float],
    since: float,
) -> Iterator[Metric]:
    """Yield the metrics of handlers.

    Args:
        queues: what was handled, by queue; or by queue and task, with NUL between them.
        limits: the upper limits of the buckets of the times that handlers took, in seconds.
        wait_limits: those of the times that messages were in the queue.
        since: when counting began, in seconds since the epoch.
    """
    seconds = HistogramMetricFamily(
        "ackq_handler_seconds", "Time that handlers took, in seconds.", labels=("queue", "task")
    )
    waited = HistogramMetricFamily(
        "ackq_time_in_queue_seconds",
        "Time from the creation of messages to their deliveries, if it is known, in seconds.",
        labels=("queue", "task"),
    )
    handled = CounterMetricFamily(
        "ackq_handled",
        "Messages handled, by outcome: ack, nack, reject, release, lost (its lease), or canceled.",
        labels=("queue", "outcome", "task"),
    )
    for name, each in sorted(queues.items()):
        queue, *task = name.split("\0")  # without a task, the label is left out
        seconds.add_metric((queue, *task), _cumulated(limits, each.buckets), each.seconds)
        if any(each.waits):
            waited.add_metric((queue, *task), _cumulated(wait_limits, each.waits), each.waited)
        for outcome, count in sorted(each.outcomes.items()):
            handled.add_metric((queue, outcome, *task), count, created=since)
    yield from (seconds, waited, handled)


def _cumulated(limits: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    return list(zip([*map(str, limits), "+Inf"], accumulate(counts), strict=True))


def slot_metrics(busy: int, concurrency: int) -> Iterator[Metric]:
    """Yield how many handlers run, and how many can run at the same time."""
    yield GaugeMetricFamily("ackq_worker_busy", "Handlers that run now.", busy)
    yield GaugeMetricFamily(
        "ackq_worker_concurrency", "Handlers that can run at the same time.", concurrency
    )
