"""The metrics of `ackq pipeline run --metrics-port`."""

import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ackq.spark.pipeline.metrics_port import MetricsPort
from ackq.spark.pipeline.micro_batches import BatchResult
from ackq.spark.pipeline.progress import Progress


@pytest.fixture
def port() -> Iterator[MetricsPort]:
    with closing(MetricsPort("cars", ("127.0.0.1", 0))) as port:
        yield port


def scrape(port: MetricsPort) -> dict[tuple[str, str], float]:
    """Return the samples by name and by reason or bucket."""
    host, number = port.address
    with urllib.request.urlopen(f"http://{host}:{number}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    samples = [
        sample for family in text_string_to_metric_families(text) for sample in family.samples
    ]
    assert {sample.labels["pipeline"] for sample in samples} == {"cars"}
    return {
        (sample.name, sample.labels.get("reason") or sample.labels.get("le", "")): sample.value
        for sample in samples
    }


def test_a_batch_counts_once_however_often_it_is_shown(port: MetricsPort) -> None:
    progress = Progress("cars")
    port.show(progress)
    assert ("ackq_pipeline_lag", "") not in scrape(port)
    progress.lag, progress.late = 7, 5
    progress.add(BatchResult(0, 100, 3, Counter({"check: a": 2, "null: b": 1}), 0.4))
    port.show(progress)
    port.show(progress)
    progress.add(BatchResult(1, 50, 1, Counter({"check: a": 1}), 2.0))
    port.show(progress)
    found = scrape(port)
    assert found["ackq_pipeline_read_total", ""] == 150
    assert found["ackq_pipeline_rejected_total", "check: a"] == 3
    assert found["ackq_pipeline_rejected_total", "null: b"] == 1
    assert found["ackq_pipeline_late_total", ""] == 5
    assert found["ackq_pipeline_lag", ""] == 7
    assert found["ackq_pipeline_batch_seconds_count", ""] == 2
    assert found["ackq_pipeline_batch_seconds_sum", ""] == 2.4
    assert found["ackq_pipeline_batch_seconds_bucket", "0.5"] == 1
    assert found["ackq_pipeline_batch_seconds_bucket", "2.5"] == 2


def test_many_reasons_are_reported_together(port: MetricsPort) -> None:
    progress = Progress("cars")
    reasons = Counter({f"transform: {n}": 1 for n in range(30)})
    progress.add(BatchResult(0, 30, 30, reasons, 0.4))
    port.show(progress)
    found = {key: value for key, value in scrape(port).items() if "rejected" in key[0]}
    assert len(found) == 21
    assert found["ackq_pipeline_rejected_total", "other"] == 10
