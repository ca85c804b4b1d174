"""A metric with its samples, as prometheus_client's objects or as text.

prometheus_client writes 240,000 samples in several seconds, most of which it spends on checking
and escaping the same labels again. That is what 10,000 queues have, so the exporter writes its own
text.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Self

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class Labels(NamedTuple):
    """The values of a sample's labels, and their text. Make it once for many metrics."""

    values: tuple[str, ...]
    text: str

    @classmethod
    def of(cls, names: Iterable[str], values: Sequence[str]) -> Self:
        """Return labels with these values."""
        return cls(tuple(values), f"{{{','.join(map(label, names, values))}}}")

    def plus(self, value: str, text: str) -> Labels:
        """Return these labels and one more, whose text is that of `label`."""
        return Labels((*self.values, value), f"{self.text[:-1]},{text}}}")


NO_LABELS = Labels((), "")


class Since(NamedTuple):
    """When counting began, in seconds since the epoch, and the text of that."""

    seconds: float
    text: str


class Family:
    """One metric. Its name and help need no escaping."""

    def __init__(
        self,
        name: str,
        kind: Literal["gauge", "counter"],
        help: str,
        names: Sequence[str] = (),
        *,
        labels: Sequence[Labels] = (NO_LABELS,),
        numbers: Sequence[float | None],
        since: Sequence[Since | None] = (),
    ) -> None:
        """Take the columns of the samples.

        Args:
            name: without the ``_total`` of a counter.
            kind: the type.
            help: one line without quotation marks and backslashes.
            names: of the labels.
            labels: of each sample. Defaults to one sample without labels.
            numbers: of each sample; None: it is unknown, and left out.
            since: when each sample began to count; None: unknown. Only for counters.
        """
        self.name = name
        self.kind = kind
        self.help = help
        self._names = names
        self._labels = labels
        self._numbers = numbers
        self._since = since

    def metric(self) -> Metric:
        """Return the metric as prometheus_client represents it."""
        if self.kind == "gauge":
            gauge = GaugeMetricFamily(self.name, self.help, labels=self._names)
            for labels, number in zip(self._labels, self._numbers, strict=True):
                if number is not None:
                    gauge.add_metric(labels.values, number)
            return gauge
        counter = CounterMetricFamily(self.name, self.help, labels=self._names)
        for labels, number, since in zip(self._labels, self._numbers, self._since, strict=True):
            if number is not None:
                counter.add_metric(labels.values, number, created=since and since.seconds)
        return counter

    def text(self, openmetrics: bool) -> str:
        """Return the text in OpenMetrics 1.0, or in Prometheus's format 0.0.4.

        The times at which counters began are only in OpenMetrics: the older format has no place
        for them, so each would be one more series.
        """
        counts = self.kind == "counter"
        name = f"{self.name}_total" if counts else self.name
        title = self.name if openmetrics else name
        lines = [f"# HELP {title} {self.help}\n# TYPE {title} {self.kind}\n"]
        if counts and openmetrics:
            created = f"{self.name}_created"
            lines += [
                f"{name}{text} {number!r}\n"
                if since is None
                else f"{name}{text} {number!r}\n{created}{text} {since.text}\n"
                for (_, text), number, since in zip(
                    self._labels, self._numbers, self._since, strict=True
                )
                if number is not None
            ]
        else:
            lines += [
                f"{name}{text} {number!r}\n"
                for (_, text), number in zip(self._labels, self._numbers, strict=True)
                if number is not None
            ]
        return "".join(lines)


class Families:
    """The metrics of one collection, for all who asked for it. Safe to share between threads."""

    def __init__(self, families: Iterable[Family]) -> None:
        """Take the metrics."""
        self._families = tuple(families)
        self._lock = threading.Lock()
        self._texts: dict[bool, str] = {}

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families)

    def text(self, openmetrics: bool) -> str:
        """Return the metrics as text, which is made once; see `Family.text`."""
        with self._lock:
            if openmetrics not in self._texts:
                text = "".join([each.text(openmetrics) for each in self])
                self._texts[openmetrics] = f"{text}# EOF\n" if openmetrics else text
            return self._texts[openmetrics]


def label(name: str, value: str) -> str:
    """Return the text of one label."""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{name}="{escaped}"'
