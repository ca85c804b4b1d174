"""A metric with its samples, as prometheus_client's objects or as text.

prometheus_client writes 240,000 samples in several seconds, most of which it spends on checking
and escaping the same labels again. An exporter of 10,000 queues has so many, so it writes its text
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class Family:
    """One metric. Its name and help need no escaping."""

    def __init__(
        self, name: str, kind: Literal["gauge", "counter"], help: str, labels: Sequence[str] = ()
    ) -> None:
        """Begin without samples.

        Args:
            name: without the ``_total`` of a counter.
            kind: the type.
            help: one line without quotation marks and backslashes.
            labels: the names of the labels.
        """
        self.name = name
        self.kind = kind
        self.help = help
        self.labels = tuple(labels)
        self._samples: list[tuple[tuple[str, ...], float, float | None]] = []

    def add(self, labels: tuple[str, ...], value: float, since: float | None = None) -> None:
        """Add a sample.

        Args:
            labels: the values of the labels.
            value: a finite number.
            since: when counting began, in seconds since the epoch; None: unknown.
        """
        self._samples.append((labels, value, since))

    def metric(self) -> Metric:
        """Return the metric as prometheus_client represents it."""
        if self.kind == "gauge":
            gauge = GaugeMetricFamily(self.name, self.help, labels=self.labels)
            for labels, value, _ in self._samples:
                gauge.add_metric(labels, value)
            return gauge
        counter = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value, since in self._samples:
            counter.add_metric(labels, value, created=since)
        return counter

    def lines(self, openmetrics: bool, escaped: dict[tuple[str, ...], str]) -> Iterator[str]:
        """Yield the lines of OpenMetrics 1.0, or of Prometheus's text format 0.0.4.

        The times at which counters began are only in OpenMetrics: the older format has no place
        for them, so each would be one more series.

        Args:
            openmetrics: which of the formats.
            escaped: the text of labels that other families with the same labels have used.
        """
        name = f"{self.name}_total" if self.kind == "counter" else self.name
        title = self.name if openmetrics else name
        yield f"# HELP {title} {self.help}\n# TYPE {title} {self.kind}\n"
        for labels, value, since in self._samples:
            text = escaped.get(labels)
            if text is None:
                text = escaped[labels] = self._text_of(labels)
            number = value if type(value) is int else float(value)  # True is 1.0
            yield f"{name}{text} {number!r}\n"
            if openmetrics and since is not None:
                yield f"{self.name}_created{text} {since!r}\n"

    def _text_of(self, labels: tuple[str, ...]) -> str:
        pairs = zip(self.labels, labels, strict=True)
        text = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
        return f"{{{text}}}" if text else ""


def as_text(families: Iterable[Family], openmetrics: bool) -> str:
    """Return metrics as text."""
    escaped: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    parts: list[str] = []
    for each in families:
        parts += each.lines(openmetrics, escaped.setdefault(each.labels, {}))
    if openmetrics:
        parts.append("# EOF\n")
    return "".join(parts)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
