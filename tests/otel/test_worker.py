"""The handlers of workers and of a delay queue's consume; blocks of an application's own."""

import asyncio
import json
import logging
from typing import Any

import pytest
import redis
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode, format_trace_id

import ackq.otel
from ackq import Queue
from ackq.delay import DelayQueue
from ackq.otel import processing
from ackq.rsmq import RSMQ
from ackq.topic import Topic
from ackq.worker import AsyncWorker, Reject, Release, Worker
from ackq.worker.logs import JsonFormatter
from tests.facade import Portal
from tests.otel.conftest import Recorded, attributes, id_of, linked
from tests.waiting import wait_until


def current() -> int:
    return id_of(trace.get_current_span())


def drain(queue: Any, handler: Any, portal: Portal, **settings: Any) -> None:
    if isinstance(queue, Queue):
        Worker(queue, handler, **settings).run(drain=True)
    else:
        portal.call(portal.call(AsyncWorker, queue._wrapped, handler, **settings).run, drain=True)


@pytest.mark.parametrize("handler_is", ["asynchronous", "plain", "plain, returns an awaitable"])
def test_a_handler_runs_in_a_span_linked_to_the_producer(
    handler_is: str, recorded: Recorded, name: str, portal: Portal
) -> None:
    seen: list[int] = []

    async def asynchronous(message: Any) -> None:
        await asyncio.sleep(0)
        seen.append(current())

    handlers: dict[str, Any] = {
        "asynchronous": asynchronous,
        "plain": lambda message: seen.append(current()),
        "plain, returns an awaitable": lambda message: asynchronous(message),
    }
    handler = handlers[handler_is]
    queue = recorded.connect(Queue, name)
    sent = []
    for n in range(3):
        queue.push({"id": f"a-{n}"})
        sent.append(id_of(recorded.spans("push")[-1]))
    drain(queue, handler, portal, concurrency=1)
    spans = recorded.spans("process")
    assert seen == [id_of(span) for span in spans]
    assert [linked(span) for span in spans] == [[each] for each in sent]
    for n, span in enumerate(spans):
        assert (span.name, span.kind) == (f"process {name}", SpanKind.CONSUMER)
        assert span.parent is None
        assert attributes(span)["message.id"] == f"a-{n}"
        assert attributes(span)["operation.type"] == "process"
        assert attributes(span)["server.port"] == int(queue.address.partition("/")[0].split(":")[1])
        assert span.status.status_code is StatusCode.UNSET


def test_the_producer_is_the_parent_by_choice(
    recorded: Recorded, name: str, portal: Portal
) -> None:
    recorded.instrument(relation="parent")
    queue = recorded.connect(Queue, name)
    queue.push({"id": "a-1"})
    queue.push(b"no context")
    drain(queue, lambda message: None, portal, concurrency=1)
    sent = recorded.spans("push")[0]
    child, root = recorded.spans("process")
    assert child.parent is not None
    assert child.parent.span_id == id_of(sent)
    assert child.context.trace_id == sent.context.trace_id
    assert linked(child) == [id_of(sent)]
    assert root.parent is None


def test_a_message_that_waits_in_the_worker_has_no_span(
    recorded: Recorded, queue: Any, portal: Portal
) -> None:
    queue.push_many([{"id": str(n)} for n in range(50)])
    recorded.clear()
    counts: list[tuple[int, int]] = []

    def handler(message: Any) -> None:
        stats = len(recorded.spans("process")) + len(recorded.spans("pop"))
        consumed = recorded.points("messaging.client.consumed.messages")
        counts.append((stats, sum(point.value for _, point in consumed)))

    drain(queue, handler, portal, concurrency=1, prefetch=100)
    # Before the n-th handler ends, n - 1 spans have ended, and n messages were delivered.
    assert counts == [(n, n + 1) for n in range(50)]
    assert recorded.spans("pop") == []


def test_settles_of_a_worker_have_spans(recorded: Recorded, queue: Any, portal: Portal) -> None:
    queue.push_many([{"id": str(n)} for n in range(3)])
    drain(queue, lambda message: None, portal)
    acks = recorded.spans("ack")
    counts = [attributes(span).get("batch.message_count", 1) for span in acks]
    assert sum(counts) == 3


def test_an_error_is_recorded_without_its_text_and_a_verdict_is_none(
    recorded: Recorded, name: str, portal: Portal, caplog: pytest.LogCaptureFixture
) -> None:
    raised: dict[str, Exception] = {"a": ValueError("hunter2"), "b": Reject("no"), "c": Release()}
    caplog.set_level(logging.CRITICAL)

    async def handler(message: Any) -> None:
        if message.id in raised:
            raise raised.pop(message.id)

    queue = recorded.connect(Queue, name, max_receives=1)
    queue.push_many([{"id": id} for id in raised])
    drain(queue, handler, portal, concurrency=1)
    failed, rejected, released, *_ = recorded.spans("process")
    assert attributes(failed)["error.type"] == "ValueError"
    assert failed.status.status_code is StatusCode.ERROR
    assert "hunter2" not in failed.to_json()
    for span in (rejected, released):
        assert span.status.status_code is StatusCode.UNSET
        assert "error.type" not in attributes(span)
    points = recorded.points("messaging.process.duration")
    assert [attrs.get("error.type") for attrs, _ in points] == ["ValueError", None]


def test_the_line_about_a_failed_handler_names_its_trace(
    recorded: Recorded, name: str, portal: Portal, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(message: Any) -> None:
        raise ValueError

    queue = recorded.connect(Queue, name, max_receives=1)
    queue.push({"id": "a-1"})
    drain(queue, handler, portal, concurrency=1)
    trace = format_trace_id(recorded.one("process").context.trace_id)
    (line,) = (each for each in caplog.records if each.message.startswith("failed "))
    assert line.message.endswith(f" trace_id={trace}")
    assert json.loads(JsonFormatter().format(line))["trace_id"] == trace
    ackq.otel.uninstrument()
    queue.push({"id": "a-2"})
    drain(queue, handler, portal, concurrency=1)
    assert "trace_id" not in caplog.records[-1].message
    assert not hasattr(caplog.records[-1], "trace_id")


def test_the_error_of_a_plain_handler_is_recorded(
    recorded: Recorded, name: str, portal: Portal, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)

    def handler(message: Any) -> None:
        raise ValueError

    queue = recorded.connect(Queue, name, max_receives=1)
    queue.push({"id": "a-1"})
    drain(queue, handler, portal, concurrency=1)
    assert attributes(recorded.one("process"))["error.type"] == "ValueError"


def test_no_span_stays_current_after_a_handler_that_leaves_one(
    recorded: Recorded, name: str, portal: Portal
) -> None:
    seen: list[int] = []

    async def handler(message: Any) -> None:
        seen.append(current())
        trace.use_span(recorded.tracer.start_span("left")).__enter__()

    queue = recorded.connect(Queue, name)
    queue.push_many([{"id": str(n)} for n in range(5)])
    drain(queue, handler, portal, concurrency=1)
    spans = recorded.spans("process")
    assert seen == [id_of(span) for span in spans]
    assert all(span.parent is None for span in spans)


@pytest.mark.parametrize("flavour", ["async"], indirect=True)  # no thread can be cancelled
def test_a_cancelled_handler_ends_its_span(recorded: Recorded, name: str, portal: Portal) -> None:
    async def handler(message: Any) -> None:
        await asyncio.sleep(60 if message.receive_count == 1 else 0)

    queue = recorded.connect(Queue, name)
    queue.push({"id": "a-1"})
    worker = portal.call(AsyncWorker, queue._wrapped, handler, time_limit=0.05)
    portal.call(worker.run, drain=True)
    assert attributes(recorded.spans("process")[0])["error.type"] == "CancelledError"


def test_the_handler_of_a_delay_queue(recorded: Recorded, name: str) -> None:
    queue = recorded.connect(DelayQueue, name)
    queue.push("k-1", {"n": 1})
    queue.push("k-2", {"n": 2})
    seen: list[int] = []

    async def in_task(message: Any) -> None:
        seen.append(current())

    def in_thread(message: Any) -> None:
        seen.append(current())

    blocking = isinstance(queue, DelayQueue)
    queue.consume(in_thread if blocking else in_task, stop=lambda: len(seen) == 2)
    spans = recorded.spans("process")
    assert seen == [id_of(span) for span in spans]
    assert [linked(span) for span in spans] == [[id_of(span)] for span in recorded.spans("push")]
    assert recorded.spans("take") == []


def test_a_block_of_the_application(recorded: Recorded, name: str, token: str) -> None:
    queue, topic, rsmq = (
        recorded.connect(Queue, name),
        recorded.connect(Topic, name + "t"),
        recorded.connect(RSMQ, token),
    )
    rsmq.create_queue("mails")
    rsmq.send_message("mails", "text")
    topic.subscribe("mailer")
    topic.publish_many([{"n": 1}, {"n": 2}])
    queue.push({"id": "a-1"})
    with processing(queue.pop()) as span:
        assert current() == id_of(span)
    with processing(topic.consume("mailer", 10)):
        pass
    with pytest.raises(KeyError), processing(rsmq.receive_message("mails"), "mails"):
        raise KeyError("k")
    one, batch, failed = recorded.spans("process")
    assert linked(one) == [id_of(recorded.spans("push")[0])]
    assert attributes(batch)["batch.message_count"] == 2
    assert attributes(batch)["consumer.group.name"] == "mailer"
    assert linked(batch) == [id_of(recorded.one("publish"))]
    assert attributes(failed)["error.type"] == "KeyError"
    assert failed.name == "process mails"


def test_one_story_from_another_language_to_a_topic(
    recorded: Recorded, name: str, portal: Portal, plain_client: redis.Redis
) -> None:
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    # What a program in Node pushes: JSON.stringify({id, traceparent}), with no help of ackq.
    body = f'{{"id":"n-1","traceparent":"00-{trace_id}-{span_id}-01","tracestate":"v=1"}}'
    for relation in ("link", "parent"):
        recorded.instrument(relation=relation)
        recorded.clear()
        topic, queue = recorded.connect(Topic, name + relation), recorded.connect(Queue, name + "q")
        publisher = Topic(plain_client, name + relation)
        topic.subscribe("mailer")
        plain_client.lpush(name + "q", body)
        drain(queue, lambda message, to=publisher: to.publish({"of": message.id}), portal)
        batch = topic.consume("mailer", 10)
        with processing(batch):
            topic.commit(batch)
        publisher.close()
        wait_until(lambda: recorded.spans("ack"), "the ack is recorded")
        handled, published = recorded.one(f"process {name}q"), recorded.one("publish")
        received, mailed = recorded.one("consume"), recorded.one(f"process {name}{relation}")
        assert linked(handled) == [int(span_id, 16)]
        assert published.parent is not None
        assert published.parent.span_id == id_of(handled)
        assert linked(received) == linked(mailed) == [id_of(published)]
        committed = recorded.one("commit").parent
        assert committed is not None
        assert committed.span_id == id_of(mailed)
        if relation == "link":
            assert handled.parent is None
            assert f"{handled.links[0].context.trace_id:032x}" == trace_id
        else:
            assert {f"{span.context.trace_id:032x}" for span in (handled, published)} == {trace_id}
            assert f"{mailed.links[0].context.trace_id:032x}" == trace_id
