"""OpenTelemetry's spans and metrics for pushes, pops, settles and handlers.

Call `instrument` once in each process. It needs ``pip install 'ackq[otel]'``; the SDK and the
exporters are yours. [Tracing](tracing.md) shows how to use it.
"""

from __future__ import annotations

from typing import Any

from ackq.core import observation
from ackq.errors import ConfigurationError

try:
    import opentelemetry.trace  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise ConfigurationError(
        "ackq.otel needs opentelemetry-api: pip install 'ackq[otel]'"
    ) from error

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from ackq.otel.handlers import Processing
from ackq.otel.observer import OtelObserver
from ackq.otel.telemetry import Relation, Telemetry

__all__ = ["instrument", "processing", "uninstrument"]

#: What `processing` uses while nothing is instrumented: OpenTelemetry's global providers.
_installed: Telemetry | None = None


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    inject: bool = True,
    relation: Relation = "link",
    error_texts: bool = False,
) -> None:
    """Record spans and metrics in this process, for all queues, topics and workers.

    Clients are observed from their next operation, workers from their next `run`. A second call
    replaces the settings of the first.

    Args:
        tracer_provider: makes the spans. Defaults to OpenTelemetry's global one.
        meter_provider: makes the metrics. Defaults to OpenTelemetry's global one.
        inject: add ``traceparent`` and ``tracestate`` to messages that are pushed as mappings or
            dataclasses, unless they have one of them or would exceed ``max_body_bytes``. Bytes
            and text never change. Defaults to True.
        relation: what a handler's span has to do with the span of the producer: "link", or
            "parent", which makes it a part of the producer's trace. Defaults to "link".
        error_texts: also record the text and the stack of errors, as events of the span. They may
            quote messages. Defaults to False.

    Raises:
        ConfigurationError: ``relation`` is neither.
    """
    global _installed
    if relation not in ("link", "parent"):
        raise ConfigurationError(f"relation is 'link' or 'parent', not {relation!r}")
    _installed = Telemetry(tracer_provider, meter_provider, inject, relation, error_texts)
    observation.observe(OtelObserver(_installed))


def uninstrument() -> None:
    """Stop recording. Workers that are running continue to record their handlers."""
    global _installed
    _installed = None
    observation.observe(None)


def processing(message: Any, destination: str | None = None) -> Processing:
    """Return a context manager: the span of the work on a message that your own code took.

    Workers and `DelayQueue.consume` do this for their handlers. The span is current within the
    block, and ends with it. An exception in the block sets ``error.type`` and is raised again.

    Args:
        message: a `Message`, `DelayedMessage`, `TopicMessage` or `RSMQMessage`; or a `Batch` of
            a topic, for work on all of its messages.
        destination: name of the queue or topic. Defaults to the message's own, which a
            `TopicMessage` and an `RSMQMessage` do not know.
    """
    return Processing(_installed or Telemetry(None, None), message, destination)
