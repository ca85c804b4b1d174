"""The tracer and the instruments, with the names of OpenTelemetry's messaging conventions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, SpanKind, TracerProvider

import ackq
from ackq.core.failure import describe

Relation = Literal["link", "parent"]
Attributes = Mapping[str, str | int]

#: The version of the conventions that these names are from.
SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM = "messaging.system"
NAME = "messaging.operation.name"
TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
GROUP = "messaging.consumer.group.name"
MESSAGE_ID = "messaging.message.id"
BODY_SIZE = "messaging.message.body.size"
COUNT = "messaging.batch.message_count"
#: Not in the conventions: the task that the message names; the number of the delivery; how many
#: messages a settle made dead letters; and how many it settled, if those were fewer than it named.
TASK = "messaging.ackq.message.task"
RECEIVES = "messaging.ackq.message.receive_count"
DEAD = "messaging.ackq.dead_letter_count"
SETTLED = "messaging.ackq.settled_count"
ADDRESS = "server.address"
PORT = "server.port"
ERROR = "error.type"
#: The conventions' buckets for durations, in seconds.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
#: Links of one span, which is the SDK's own default limit.
MAX_LINKS = 128

#: The name of a shard's queue, as in ``{jobs:0.3}``, and ``{jobs:0}`` in format 1.
_SHARD = re.compile(r"\{([^{}]+):(\d+)(?:\.\d+)?\}")


class Telemetry:
    """Makes spans and records metrics."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        inject: bool = True,
        relation: Relation = "link",
        error_texts: bool = False,
    ) -> None:
        self.inject = inject
        self.relation = relation
        self.error_texts = error_texts
        self.tracer = trace.get_tracer("ackq", ackq.__version__, tracer_provider, SCHEMA)
        meter = metrics.get_meter("ackq", ackq.__version__, meter_provider, SCHEMA)
        self.sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that were sent."
        )
        self.consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that were delivered."
        )
        self.operation_duration = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of sends, receives and settles.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self.process_duration = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of the handling of messages.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )

    def start(
        self,
        attributes: Attributes,
        kind: SpanKind,
        own: Attributes,
        links: Sequence[Link] = (),
        *,
        parent: Context | None = None,
        since: int | None = None,
    ) -> trace.Span:
        """Start a span, without making it current.

        Args:
            attributes: those that the span has in common with its metrics.
            kind: of the span.
            own: attributes of the span alone.
            links: to other spans.
            parent: the context of the parent span. Defaults to the current one.
            since: when it began, in nanoseconds since the epoch. Defaults to now.
        """
        name = f"{attributes[NAME]} {attributes[DESTINATION]}"
        return self.tracer.start_span(
            name, parent, kind, {**attributes, **own}, links, since, record_exception=False
        )

    def note(self, span: trace.Span, error: BaseException) -> None:
        """Record the text and the stack of an error, if they are asked for."""
        if self.error_texts:
            described = describe(error, trace=True)
            span.add_event(
                "exception",
                {
                    "exception.type": described.type,
                    "exception.message": described.text,
                    "exception.stacktrace": described.traceback,
                },
            )


def attributes_of(
    name: str, kind: str, destination: str, address: str, partition: int | None = None
) -> dict[str, str | int]:
    """Return the attributes that spans and metrics have in common. All have few values.

    Args:
        name: of the operation, as in ackq's own methods.
        kind: "send", "receive", "settle" or "process".
        destination: name of the queue or topic. A shard counts as a partition of its queue.
        address: of the server, as clients show it; empty if it is not known.
        partition: of a delay queue.
    """
    return _attributes(name, kind, destination, address, partition).copy()


@lru_cache(maxsize=1024)
def _attributes(
    name: str, kind: str, destination: str, address: str, partition: int | None
) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {SYSTEM: "ackq", NAME: name, TYPE: kind}
    if shard := _SHARD.fullmatch(destination):
        destination, number = shard.groups()
        attributes[PARTITION] = number
    attributes[DESTINATION] = destination
    if partition is not None:
        attributes[PARTITION] = str(partition)
    if address.startswith("unix:"):
        attributes[ADDRESS] = address.removeprefix("unix:")
    elif ":" in address:
        host, _, port = address.partition("/")[0].rpartition(":")
        attributes[ADDRESS], attributes[PORT] = host, int(port)
    return attributes


def error_type(error: BaseException | None) -> str:
    """Return the name of an error's class, or nothing.

    Its text may quote a message, so it is not recorded.
    """
    if error is None:
        return ""
    return "cancelled" if isinstance(error, GeneratorExit) else type(error).__qualname__
