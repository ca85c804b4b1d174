"""Metrics as text, in the format that a scraper asks for."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector as RegistryCollector

from ackq.core.io.http import Answer
from ackq.metrics.families import Families

#: Bytes from which on an answer is compressed.
LARGE = 10_000


def render(metrics: Iterable[Metric], headers: Mapping[str, str]) -> Answer:
    """Return metrics in the format, and compressed, as the headers of the request ask for.

    The times at which counters began are only in OpenMetrics, see `Family.lines`.
    """
    encoder, content_type = choose_encoder(headers.get("Accept") or "")
    if not _is_openmetrics(content_type):
        metrics = map(_without_created, metrics)
    encode: Any = encoder
    return _answer(encode(_Collected(metrics)), content_type, headers)


def render_families(families: Families, headers: Mapping[str, str]) -> Answer:
    """Return what `render` returns, for more samples in less time."""
    _, content_type = choose_encoder(headers.get("Accept") or "")
    text = families.text(_is_openmetrics(content_type))
    return _answer(text.encode(), content_type, headers)


def _is_openmetrics(content_type: str) -> bool:
    return content_type.startswith("application/openmetrics-text")


def _answer(body: bytes, content_type: str, headers: Mapping[str, str]) -> Answer:
    if len(body) < LARGE or not _takes_gzip(headers.get("Accept-Encoding") or ""):
        return Answer(200, body, content_type, {"Vary": "Accept, Accept-Encoding"})
    return Answer(
        200,
        gzip.compress(body, 1),
        content_type,
        {"Vary": "Accept, Accept-Encoding", "Content-Encoding": "gzip"},
    )


class _Collected(RegistryCollector):
    """Metrics that were collected already, as the encoders take them."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _without_created(metric: Metric) -> Metric:
    metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    return metric


def _takes_gzip(accepted: str) -> bool:
    for each in accepted.split(","):
        coding, _, quality = each.replace(" ", "").partition(";")
        if coding in ("gzip", "*"):
            return quality not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
