"""Trace context in messages: what is added, what never is, and what a hostile body can do."""

import dataclasses
from typing import Any

import orjson
import pytest
import redis

from ackq import Queue
from ackq.delay import DelayQueue
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from tests.otel.conftest import Recorded, id_of, linked

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@dataclasses.dataclass
class Order:
    id: str
    amount: int


def carries(body: bytes, span: Any) -> bool:
    value: str = orjson.loads(body)["traceparent"]
    span_id = value.split("-")[2]
    return int(span_id, 16) == id_of(span)


def test_objects_carry_the_context_of_the_send(recorded: Recorded, name: str, token: str) -> None:
    queue, delayed = recorded.connect(Queue, name), recorded.connect(DelayQueue, name + "d")
    topic, sharded = (
        recorded.connect(Topic, name + "t"),
        recorded.connect(ShardedQueue, token + "s", 2),
    )
    queue.push({"n": 1})
    queue.push_many([Order("o-1", 5), {"n": 2}])
    queue.push({"n": 3}, delay=0)
    queue.push({"n": 4}, dedup=token)
    delayed.push("k", {"n": 1})
    topic.subscribe("c")
    topic.publish({})
    topic.publish_many([Order("o-2", 5)])
    sharded.push({"n": 1})
    sharded.push_many([{"n": 2}, {"n": 3}])
    sends = recorded.spans()
    one, several, scheduled, deduplicated, delay, first, second, shard, shards = sends
    bodies = {each.body for each in queue.peek(10)}
    for span, count in ((one, 1), (several, 2), (scheduled, 1), (deduplicated, 1)):
        assert sum(carries(body, span) for body in bodies) == count
    assert carries(delayed.take()[0].body, delay)
    batch = topic.consume("c", 10)
    assert carries(batch[0].body, first)
    assert carries(batch[1].body, second)
    assert orjson.loads(batch[1].body)["amount"] == 5
    messages = [message for _ in range(2) for message in sharded.pop_many(10)]
    assert sum(carries(message.body, shard) for message in messages) == 1
    assert sum(carries(message.body, shards) for message in messages) == 2
    sharded.close()


def test_the_id_stays_first(queue: Any) -> None:
    queue.push({"n": 1, "id": "a-1"})
    assert queue.pop().body.startswith(b'{"id":"a-1"')


def test_a_span_of_the_application_gives_its_trace_and_its_state(
    recorded: Recorded, queue: Any
) -> None:
    queue.push({"id": "a-1", "traceparent": PARENT, "tracestate": "vendor=1"})
    own = queue.pop().json()
    assert own == {"id": "a-1", "traceparent": PARENT, "tracestate": "vendor=1"}
    sent = recorded.one("push")
    (link,) = sent.links
    assert f"{link.context.trace_id:032x}" == TRACE
    assert link.context.trace_state["vendor"] == "1"


@pytest.mark.parametrize(
    "message", [{"id": "1", "traceparent": None}, {"id": "1", "tracestate": "a=b"}]
)
def test_an_object_that_has_one_of_the_names_is_not_changed(
    queue: Any, message: dict[str, Any]
) -> None:
    queue.push(message)
    assert queue.pop().json() == message


def test_bytes_are_not_changed(recorded: Recorded, name: str) -> None:
    bodies = [b'{"id": "1"}', b"", b"{}", b"\x00"]
    queue, topic = recorded.connect(Queue, name), recorded.connect(Topic, name)
    queue.push_many(bodies)
    assert [message.body for message in queue.pop_many(10)] == bodies
    topic.subscribe("c")
    topic.publish_many(bodies)
    assert [message.body for message in topic.consume("c", 10)] == bodies


def test_a_message_that_would_get_too_long_goes_without(recorded: Recorded, name: str) -> None:
    queue = recorded.connect(Queue, name, max_body_bytes=40)
    queue.push({"id": "a-1", "text": "x" * 15})
    assert queue.pop().json() == {"id": "a-1", "text": "x" * 15}


def test_injection_can_be_switched_off(recorded: Recorded, name: str) -> None:
    recorded.instrument(inject=False)
    queue = recorded.connect(Queue, name)
    queue.push({"id": "a-1"})
    assert queue.pop().body == b'{"id":"a-1"}'


@pytest.mark.parametrize(
    "body",
    [
        b'{"traceparent": 7}',
        b'{"traceparent": "00-zz-zz-01"}',
        b'{"traceparent": "00-%s-%s-01"}' % (b"0" * 32, b"0" * 16),
        b'{"nested": {"traceparent": "%s"}}' % PARENT.encode(),
        b'["traceparent", "%s"]' % PARENT.encode(),
        b'"traceparent"',
        b"traceparent \xff",
        b'{"traceparent":' + b"[" * 5000,
        b'{"traceparent": "%s", "tracestate": "%s"}' % (b"9" * 9000, b"=," * 9000),
    ],
)
def test_a_body_without_a_valid_context_is_delivered_without_a_link(
    queue: Any, recorded: Recorded, name: str, body: bytes, plain_client: redis.Redis
) -> None:
    plain_client.lpush(name, body)
    with recorded.tracer.start_as_current_span("of the application"):
        assert queue.pop().body == body
    assert linked(recorded.one("pop")) == []


def test_a_bad_tracestate_does_not_hide_the_link(
    queue: Any, recorded: Recorded, name: str, plain_client: redis.Redis
) -> None:
    plain_client.lpush(name, orjson.dumps({"traceparent": PARENT, "tracestate": ["a"]}))
    queue.pop()
    assert linked(recorded.one("pop")) == [0xB7AD6B7169203331]


def test_a_batch_links_to_each_producer_once_and_to_no_more_than_a_span_may(
    recorded: Recorded, queue: Any
) -> None:
    queue.push_many([{"n": n} for n in range(200)])
    assert len(queue.pop_many(200)) == 200
    assert linked(recorded.one("pop")) == [id_of(recorded.one("push"))]
    recorded.clear()
    queue.push_many([{"traceparent": f"00-{TRACE}-{n + 1:016x}-01"} for n in range(200)])
    queue.pop_many(200)
    assert linked(recorded.one("pop")) == [n + 1 for n in range(128)]
