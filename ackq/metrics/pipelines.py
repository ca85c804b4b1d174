"""What a pipeline on Spark did, as Prometheus metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

#: The upper limits of the buckets of the times that batches took, in seconds.
LIMITS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
#: Most reasons that are reported by themselves; the rest is "other".
MAX_REASONS = 20


@dataclass
class PipelineFigures:
    """The figures of one run."""

    name: str
    #: When the run began, in seconds since the epoch.
    since: float
    rows: int = 0
    #: Rejected messages by reason. A reason keeps its name once it is reported.
    rejected: Counter[str] = field(default_factory=Counter)
    #: Rows that stateful sinks left out because they were late.
    late: int = 0
    #: Unfinished messages of the source; None: unknown.
    lag: int | None = None
    #: Seconds of all batches, and their number in each bucket.
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(LIMITS) + 1))

    def add(self, rows: int, reasons: Counter[str], seconds: float) -> None:
        """Count a batch."""
        self.rows += rows
        for reason, count in reasons.items():
            is_known = reason in self.rejected or len(self.rejected) < MAX_REASONS
            self.rejected[reason if is_known else "other"] += count
        self.seconds += seconds
        self.buckets[bisect_left(LIMITS, seconds)] += 1


def pipeline_metrics(run: PipelineFigures) -> Iterator[Metric]:
    """Yield the metrics of one run."""
    name = (run.name,)
    read = CounterMetricFamily(
        "ackq_pipeline_read", "Messages of finished batches.", labels=("pipeline",)
    )
    read.add_metric(name, run.rows, created=run.since)
    rejected = CounterMetricFamily(
        "ackq_pipeline_rejected",
        "Messages that became dead letters, by reason.",
        labels=("pipeline", "reason"),
    )
    for reason, count in sorted(run.rejected.items()):
        rejected.add_metric((run.name, reason), count, created=run.since)
    seconds = HistogramMetricFamily(
        "ackq_pipeline_batch_seconds", "Time that batches took, in seconds.", labels=("pipeline",)
    )
    limits = [*map(str, LIMITS), "+Inf"]
    seconds.add_metric(name, list(zip(limits, accumulate(run.buckets), strict=True)), run.seconds)
    late = CounterMetricFamily(
        "ackq_pipeline_late", "Rows that stateful sinks left out.", labels=("pipeline",)
    )
    late.add_metric(name, run.late, created=run.since)
    yield from (read, rejected, late, seconds)
    if run.lag is not None:
        lag = GaugeMetricFamily(
            "ackq_pipeline_lag", "Unfinished messages of the source.", labels=("pipeline",)
        )
        lag.add_metric(name, run.lag)
        yield lag
