"""Fixtures: what the SDK's in-memory exporters got, and clients of every product."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
import redis
import redis.asyncio
from opentelemetry import context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ackq.otel
from ackq import AsyncQueue, Queue
from ackq.delay import (
    AsyncDelayQueue,
    AsyncPartitionedDelayQueue,
    DelayQueue,
    PartitionedDelayQueue,
)
from ackq.rsmq import RSMQ, AsyncRSMQ
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from ackq.topic import AsyncTopic, Topic

TWINS: dict[type, type] = {
    Queue: AsyncQueue,
    DelayQueue: AsyncDelayQueue,
    PartitionedDelayQueue: AsyncPartitionedDelayQueue,
    Topic: AsyncTopic,
    RSMQ: AsyncRSMQ,
    ShardedQueue: AsyncShardedQueue,
}
Connect = Callable[..., Any]


class Recorded:
    """The spans and metrics of one test. Its settings are those of `ackq.otel.instrument`."""

    def __init__(self, connect: Connect) -> None:
        #: ``connect(Queue, name, ...)``: a client of that class, or its twin.
        self.connect = connect
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])
        #: For spans of the test's own, as an application has them.
        self.tracer = self.tracers.get_tracer("test")

    def instrument(self, **settings: Any) -> None:
        ackq.otel.instrument(tracer_provider=self.tracers, meter_provider=self.meters, **settings)

    def spans(self, start: str = "") -> list[ReadableSpan]:
        """Return the spans that have ended, and whose names begin so, in that order."""
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(start)]

    def one(self, start: str) -> ReadableSpan:
        (span,) = self.spans(start)
        return span

    def clear(self) -> None:
        self._exporter.clear()

    def points(self, metric: str) -> list[tuple[dict[str, Any], Any]]:
        """Return the points of a metric: attributes without ``messaging.``, and the point."""
        data = self._reader.get_metrics_data()
        return [
            (_short(point.attributes), point)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == metric
            for point in each.data.data_points
        ]


@pytest.fixture
def recorded(connect: Connect) -> Iterator[Recorded]:
    """What ackq records, with the default settings."""
    found = Recorded(connect)
    found.instrument()
    yield found
    ackq.otel.uninstrument()
    found.tracers.shutdown()
    found.meters.shutdown()


@pytest.fixture(autouse=True)
def context_is_detached() -> Iterator[None]:
    """Fail a test that leaves a span current in its thread."""
    before = context.get_current()
    yield
    assert context.get_current() == before
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.fixture
def connect(plain_client: redis.Redis, flavour: str, flavoured: Callable[..., Any]) -> Connect:
    """``connect(Queue, name, ...)``: a client of that class, or its twin, in the test's flavour."""
    settings = plain_client.connection_pool.connection_kwargs
    address = {"host": settings["host"], "port": settings["port"]}
    client: Any = redis.Redis if flavour == "sync" else redis.asyncio.Redis
    return lambda kind, *args, port=address["port"], **settings: flavoured(
        kind, TWINS[kind], client(**{**address, "port": port}), *args, **settings
    )


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """Return a span's attributes without ``messaging.``, and without those of all spans."""
    found = {
        key.removeprefix("messaging."): value for key, value in (span.attributes or {}).items()
    }
    assert found.pop("system") == "ackq"
    return found


def linked(span: ReadableSpan) -> list[int]:
    """Return the ids of the spans to which a span links."""
    return [link.context.span_id for link in span.links]


def id_of(span: ReadableSpan | trace.Span) -> int:
    context = span.get_span_context()
    assert context is not None
    found: int = context.span_id
    return found


def names(spans: Iterable[ReadableSpan]) -> list[str]:
    return [span.name for span in spans]


def _short(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key.removeprefix("messaging."): value for key, value in (attributes or {}).items()}


@pytest.fixture
def queue(recorded: Recorded, name: str) -> Any:
    """The queue of the test, in its flavour, whose calls are recorded."""
    return recorded.connect(Queue, name)
