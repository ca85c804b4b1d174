"""Trace context in messages: ``traceparent`` and ``tracestate`` at the top of the JSON object.

A list has no headers. These are the names of W3C's Trace Context and of CloudEvents, so programs
in other languages can read and write them as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ackq.core.observation import Members
from ackq.otel.telemetry import MAX_LINKS

NAMES = ("traceparent", "tracestate")
#: Longest values that are read, in characters. W3C asks for at least 512 of a tracestate.
_MAX_PARENT, _MAX_STATE = 256, 4096
_W3C = TraceContextTextMapPropagator()
#: A context without a span, so that a body without one never yields the current span.
_NONE = Context()


def members_of(span: Span) -> Members | None:
    """Return the members that carry the context of ``span``; None if it has none."""
    if not span.get_span_context().is_valid:
        return None
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, set_span_in_context(span, _NONE))
    return Members(NAMES, orjson.dumps(carrier)[1:-1])


def producer_of(message: Any) -> SpanContext | None:
    """Return the context that a message carries, or None.

    Args:
        message: the body as bytes, a mapping to be pushed, or anything else, which has none.
    """
    if isinstance(message, bytes):
        # Most bodies without a context cost a search, and are not parsed.
        if b"traceparent" not in message:
            return None
        try:
            message = orjson.loads(message)
        except ValueError:
            return None
    if not isinstance(message, Mapping):
        return None
    parent, state = message.get("traceparent"), message.get("tracestate")
    if not isinstance(parent, str) or len(parent) > _MAX_PARENT:
        return None
    if not isinstance(state, str) or len(state) > _MAX_STATE:
        state = ""
    return _parsed(parent, state)


@lru_cache(maxsize=1024)
def _parsed(parent: str, state: str) -> SpanContext | None:
    """Parse a context. The messages of a batch often have the same, and parsing costs 10 µs."""
    context = _W3C.extract({"traceparent": parent, "tracestate": state}, _NONE)
    parsed = get_current_span(context).get_span_context()
    return parsed if parsed.is_valid else None


def links_to(messages: Iterable[Any]) -> list[Link]:
    """Return a link to each producer of the messages, see `producer_of`; at most `MAX_LINKS`."""
    links: dict[tuple[int, int], Link] = {}
    for message in messages:
        if (producer := producer_of(message)) is not None:
            links.setdefault((producer.trace_id, producer.span_id), Link(producer))
            if len(links) == MAX_LINKS:
                break
    return list(links.values())


def child_of(producer: SpanContext) -> Context:
    """Return a context whose spans are children of ``producer``."""
    return set_span_in_context(NonRecordingSpan(producer))
