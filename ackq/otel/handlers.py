"""The span of a handler: it is current while the handler runs, and never longer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import Token
from functools import wraps
from time import perf_counter
from types import TracebackType
from typing import Any

from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    StatusCode,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)

from ackq.otel.context import child_of, links_to
from ackq.otel.messages import partition_of, taken_facts
from ackq.otel.telemetry import ERROR, GROUP, Telemetry, attributes_of, error_type
from ackq.queue.messages import Message
from ackq.topic.messages import Batch
from ackq.worker.base import is_async
from ackq.worker.verdicts import pending, plain_value_async, verdict_in


class Processing:
    """A block in which a message is worked on. See `ackq.otel.processing`."""

    def __init__(
        self,
        telemetry: Telemetry,
        message: Any,
        destination: str | None = None,
        address: str = "",
        *,
        delivers: bool = False,
    ) -> None:
        """Prepare the block.

        Args:
            telemetry: makes the span.
            message: see `ackq.otel.processing`.
            destination: see `ackq.otel.processing`.
            address: of the server.
            delivers: whether the message was taken in advance, and is delivered only now.
        """
        self._telemetry = telemetry
        self._message = message
        self._delivers = delivers
        batch = isinstance(message, Batch)
        self._messages = list(message) if batch else [message]
        name = destination or str(getattr(message, "topic" if batch else "queue", ""))
        self._attributes = attributes_of(
            "process", "process", name, address, partition_of(self._messages)
        )
        if batch:
            self._attributes[GROUP] = message.consumer

    def __enter__(self) -> Span:
        self.start()
        self.attach()
        return self._span

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.detach()
        self.end(error)

    def start(self) -> None:
        """Start the span."""
        telemetry, messages = self._telemetry, self._messages
        batch = isinstance(self._message, Batch)
        links = links_to(message.body for message in messages)
        parent: Context | None = None
        # Only one message can be the parent.
        if telemetry.relation == "parent" and links and not batch:
            parent = child_of(links[0].context)
            if (ambient := get_current_span().get_span_context()).is_valid:
                links.append(Link(ambient))
        self._began = perf_counter()
        self._span = telemetry.start(
            self._attributes, SpanKind.CONSUMER, taken_facts(messages, batch), links, parent=parent
        )
        own = self._span.get_span_context()
        if own.is_valid and isinstance(self._message, Message):
            self._message.trace_id = format_trace_id(own.trace_id)
        if self._delivers:
            telemetry.consumed.add(len(messages), self._attributes)

    def attach(self) -> None:
        """Make the span current in this thread or task."""
        self._token: Token[Context] = context.attach(set_span_in_context(self._span))

    def detach(self) -> None:
        """Make the span current that was so before."""
        context.detach(self._token)

    def end(self, error: BaseException | None) -> None:
        """End the span and record its duration. A verdict is not an error."""
        attributes = self._attributes
        if error is not None and verdict_in(error) is None:
            attributes[ERROR] = error_type(error)
            self._span.set_attribute(ERROR, attributes[ERROR])
            self._span.set_status(StatusCode.ERROR)
            self._telemetry.note(self._span, error)
        self._span.end()
        self._telemetry.process_duration.record(perf_counter() - self._began, attributes)


def observed(
    telemetry: Telemetry, handler: Callable[[Any], Any], addresses: Mapping[str, str]
) -> Callable[[Any], Any]:
    """Return the handler with a span for each call; asynchronous if the handler is."""

    def processing(message: Any) -> Processing:
        address = addresses.get(message.queue, "")
        return Processing(telemetry, message, message.queue, address, delivers=True)

    if is_async(handler):

        @wraps(handler)
        async def handle_async(message: Any) -> Any:
            with processing(message):
                return await plain_value_async(await handler(message))

        return handle_async

    @wraps(handler)
    def handle(message: Any) -> Any:
        block = processing(message)
        block.start()
        try:
            block.attach()
            try:
                awaitable = pending(handler(message))
            finally:
                block.detach()
        except BaseException as error:
            block.end(error)
            raise
        if awaitable is not None:
            return _finish(block, awaitable)
        block.end(None)
        return None

    return handle


async def _finish(block: Processing, awaitable: Awaitable[Any]) -> Any:
    """Await what a plain handler returned. That happens in a task, which has its own context."""
    error: BaseException | None = None
    block.attach()
    try:
        return await plain_value_async(awaitable)
    except BaseException as raised:
        error = raised
        raise
    finally:
        block.detach()
        block.end(error)
