"""Observe operations: one span and the metrics of each send, receive and settle.

An observed operation is a generator around the original one, so it serves threads and asyncio. No
span is made current here: an operation calls no code of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from opentelemetry.trace import Span, SpanKind

from ackq.core.effects import Operation, Pipeline, Request
from ackq.core.observation import Members, adding, prefetches
from ackq.core.operation_marks import OBSERVED, Args, Receive, Send, Settle
from ackq.otel.calls import Call
from ackq.otel.context import links_to, members_of
from ackq.otel.handlers import observed
from ackq.otel.messages import (
    body_of,
    dead_of,
    group_of,
    id_sent,
    partition_of,
    results_of,
    settled_facts,
    taken_facts,
)
from ackq.otel.telemetry import (
    COUNT,
    GROUP,
    MESSAGE_ID,
    PARTITION,
    Telemetry,
    attributes_of,
)
from ackq.rsmq.values import RSMQSpec
from ackq.topic.messages import Batch

T = TypeVar("T")
#: Whether the sends of this thread or task are parts of one that is observed already.
_IS_PART: ContextVar[bool] = ContextVar("ackq_otel_is_part", default=False)


class OtelObserver:
    """The `ackq.core.observation.Observer` that `ackq.otel.instrument` sets."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def operation(
        self,
        operation: Callable[..., Operation[T]],
        address: str,
        args: Args,
        settings: Mapping[str, Any],
        first: Operation[None] | None = None,
    ) -> Operation[T]:
        """Return the operation, observed."""
        watched = OBSERVED.get(operation)
        if watched is None:
            return _relay(operation(*args, **settings), first)
        where = _destination_of(args), address
        if isinstance(watched, Send):
            args, sent = watched.messages(args)
            return self._send(watched, sent, where, operation(*args, **settings), first)
        if isinstance(watched, Settle):
            args, settled = watched.messages(args)
            steps = operation(*args, **settings)
            dying = dead_of(watched.named(settings), args[0], settled)
            return self._settle(watched.named(settings), settled, where, steps, first, dying)
        args, settled = watched.settled(args)
        return self._receive(watched, args, settled, where, operation(*args, **settings), first)

    def handler(self, handler: Any, addresses: Mapping[str, str]) -> Any:
        """Return the handler, observed."""
        return observed(self._telemetry, handler, addresses)

    @contextmanager
    def sending(self, name: str, address: str, messages: Sequence[Any]) -> Iterator[None]:
        """Observe a push to several shards as one send."""
        call = Call(self._telemetry, attributes_of("push", "send", name, address))
        span = call.start(SpanKind.PRODUCER, {COUNT: len(messages)}, links_to(messages))
        token = _IS_PART.set(True)
        try:
            with adding(self._members(span)):
                yield
        except BaseException as error:
            self._sent(call, messages, error)
            raise
        finally:
            _IS_PART.reset(token)
        self._sent(call, messages)

    def _send(
        self,
        watched: Send,
        messages: Sequence[Any],
        where: tuple[str, str],
        steps: Operation[T],
        first: Operation[None] | None,
    ) -> Operation[T]:
        if _IS_PART.get():
            return (yield from _relay(steps, first))
        partition = partition_of(messages)
        call = Call(self._telemetry, attributes_of(watched.name, "send", *where, partition))
        batch = watched.many and len(messages) != 1
        own = {COUNT: len(messages)} if batch else {}
        span = call.start(SpanKind.PRODUCER, own, links_to(map(body_of, messages)))
        try:
            result = yield from _relay(steps, first, self._members(span))
        except BaseException as error:
            self._sent(call, messages, error)
            raise
        if not batch and (id := id_sent(messages[0], result)):
            span.set_attribute(MESSAGE_ID, id)
        self._sent(call, messages)
        return result

    def _sent(
        self, call: Call, messages: Sequence[Any], error: BaseException | None = None
    ) -> None:
        call.fail(error)
        self._telemetry.sent.add(len(messages), call.attributes)

    def _receive(
        self,
        watched: Receive,
        args: Args,
        settled: Sequence[Any],
        where: tuple[str, str],
        steps: Operation[T],
        first: Operation[None] | None,
    ) -> Operation[T]:
        call = Call(self._telemetry, attributes_of(watched.name, "receive", *where))
        if group := watched.group(args):
            call.attributes[GROUP] = group
        acking = self._settling(watched.settled_as, settled, where) if settled else None
        batch = args[watched.wanted] != 1
        try:
            result = yield from _relay(steps, first, replied=acking.replied if acking else None)
        except BaseException as error:
            if acking is not None:
                acking.fail(error)
            # A cancelled wait is no error, and it received nothing.
            if not isinstance(error, GeneratorExit):
                call.start(SpanKind.CLIENT)
                call.fail(error)
            raise
        if acking is not None:
            lost = any(message.lease_lost for message in settled)
            acking.end("LeaseLost" if lost else "")
        self._received(call, result, batch)
        return result

    def _received(self, call: Call, taken: Any, batch: bool) -> None:
        # Those that wait for a handler are received when it is called.
        if not taken or prefetches():
            return
        if (partition := partition_of(taken)) is not None:
            call.attributes[PARTITION] = str(partition)
        call.start(SpanKind.CLIENT, taken_facts(taken, batch), links_to(map(body_of, taken)))
        call.end()
        self._telemetry.consumed.add(len(taken), call.attributes)

    def _settle(
        self,
        name: str,
        messages: Sequence[Any],
        where: tuple[str, str],
        steps: Operation[T],
        first: Operation[None] | None,
        dying: int,
    ) -> Operation[T]:
        call = self._settling(name, messages, where)
        try:
            result = yield from _relay(steps, first)
        except BaseException as error:
            call.fail(error)
            raise
        call.span.set_attributes(results_of(messages, result, dying))
        call.end()
        return result

    def _settling(self, name: str, messages: Sequence[Any], where: tuple[str, str]) -> Call:
        partition = partition_of(messages)
        call = Call(self._telemetry, attributes_of(name, "settle", *where, partition))
        if group := group_of(messages):
            call.attributes[GROUP] = group
        # Links are optional here. Those of several messages would cost the parsing of each body,
        # but without them nothing would lead from a batch of a topic to its producers.
        linked = [*messages[0]] if messages and isinstance(messages[0], Batch) else messages
        links = links_to(map(body_of, linked)) if len(messages) == 1 else ()
        call.start(SpanKind.CLIENT, settled_facts(messages), links)
        return call

    def _members(self, span: Span) -> Members | None:
        return members_of(span) if self._telemetry.inject else None


def _destination_of(args: Args) -> str:
    """Return the name of the queue or topic, with RSMQ's namespace."""
    spec = args[0]
    return f"{spec.ns}:{args[1]}" if isinstance(spec, RSMQSpec) else str(spec.name)


def _relay(
    steps: Operation[T],
    first: Operation[None] | None = None,
    members: Members | None = None,
    replied: Callable[[], None] | None = None,
) -> Operation[T]:
    """Run an operation.

    Args:
        steps: the operation.
        first: what to do before it.
        members: to add to the messages. Operations encode them before their first effect.
        replied: called after each reply of the server, or when requests are sent with a wait.
    """
    if first is not None:
        yield from first
    try:
        with adding(members):
            effect = next(steps)
        while True:
            if replied is not None and isinstance(effect, Pipeline):
                replied()  # its replies are read after a wait, which is not counted
            try:
                answer = yield effect
            except Exception as error:
                effect = steps.throw(error)
            else:
                if replied is not None and isinstance(effect, Request):
                    replied()
                effect = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
