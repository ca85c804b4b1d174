"""Each kind of queue: names, kinds, attributes and links of its spans."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from opentelemetry.trace import SpanKind, StatusCode

import ackq.otel
from ackq import LeaseLost, Queue
from ackq.core import observation
from ackq.delay import DelayQueue, PartitionedDelayQueue
from ackq.errors import ConfigurationError, InvalidMessage, KeyTypeError, QueueNotFound
from ackq.rsmq import RSMQ
from ackq.sharded import ShardedQueue
from ackq.sharded.operations import shard_of
from ackq.topic import Topic
from tests.otel.conftest import Recorded, attributes, id_of, linked, names
from tests.waiting import wait_until


def test_a_push_a_pop_and_an_ack_of_one_message(queue: Any, recorded: Recorded, name: str) -> None:
    queue.push({"id": "a-1"})
    message = queue.pop()
    queue.ack(message)
    sent, received, settled = recorded.spans()
    host, port = queue.address.partition("/")[0].split(":")
    where = {"destination.name": name, "server.address": host, "server.port": int(port)}
    assert (sent.name, sent.kind) == (f"push {name}", SpanKind.PRODUCER)
    assert attributes(sent) == where | {
        "operation.name": "push",
        "operation.type": "send",
        "message.id": "a-1",
    }
    assert (received.name, received.kind) == (f"pop {name}", SpanKind.CLIENT)
    assert attributes(received) == where | {
        "operation.name": "pop",
        "operation.type": "receive",
        "message.id": "a-1",
        "message.body.size": len(message.body),
        "ackq.message.receive_count": 1,
    }
    assert (settled.name, settled.kind) == (f"ack {name}", SpanKind.CLIENT)
    assert attributes(settled) == where | {
        "operation.name": "ack",
        "operation.type": "settle",
        "message.id": "a-1",
    }
    assert linked(received) == linked(settled) == [id_of(sent)]
    assert received.parent is settled.parent is None


def test_a_batch_has_a_number_of_messages_and_no_id(recorded: Recorded, queue: Any) -> None:
    queue.push_many({"n": n} for n in range(3))
    messages = queue.pop_many(10)
    queue.ack(*messages)
    for span in recorded.spans():
        assert attributes(span)["batch.message_count"] == 3
        assert "message.id" not in attributes(span)
    assert linked(recorded.one("pop")) == [id_of(recorded.one("push"))]


def test_every_settle_has_the_name_of_its_method(queue: Any, recorded: Recorded, name: str) -> None:
    queue.push_many([{"n": n} for n in range(3)])
    nacked, released, rejected = queue.pop_many(3)
    queue.nack([nacked])
    queue.release(released)
    queue.reject(iter([rejected]), reason="no such order")
    settles = [span for span in recorded.spans() if attributes(span)["operation.type"] == "settle"]
    assert names(settles) == [f"nack {name}", f"release {name}", f"reject {name}"]
    assert {span.kind for span in settles} == {SpanKind.CLIENT}
    assert [attributes(span)["message.id"] for span in settles] == [
        nacked.id,
        released.id,
        rejected.id,
    ]


def test_an_ack_that_travels_with_a_pop_has_a_span_that_ends_before_the_wait(
    recorded: Recorded, queue: Any, plain_client: redis.Redis
) -> None:
    queue.push({"id": "a-1"})
    message = queue.pop()
    recorded.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.pop, timeout=30, ack=iter([message]))
        wait_until(
            lambda: any(each["cmd"] == "blmove" for each in plain_client.client_list()),
            "the pop waits, so the ack was answered",
        )
        queue.push({"id": "a-2"})
        assert waiting.result().id == "a-2"
    acked, pushed, popped = (recorded.one(verb) for verb in ("ack", "push", "pop"))
    assert acked.end_time is not None
    assert pushed.start_time is not None
    assert popped.end_time is not None
    assert acked.end_time <= pushed.start_time <= popped.end_time
    assert attributes(acked)["message.id"] == "a-1"


def test_a_pop_that_returns_nothing_has_no_span(recorded: Recorded, queue: Any) -> None:
    assert queue.pop() is None
    assert queue.pop_many(10, timeout=0.01) == []
    assert recorded.spans() == []
    assert recorded.points("messaging.client.operation.duration") == []


def test_a_refused_ack_is_an_error(recorded: Recorded, name: str) -> None:
    queue = recorded.connect(Queue, name, requeue="back")
    queue.push({"id": "a-1"})
    message = queue.pop()
    message.receipt += 1
    with pytest.raises(LeaseLost):
        queue.ack(message)
    (span,) = recorded.spans("ack")
    assert attributes(span)["error.type"] == "LeaseLost"
    assert span.status.status_code is StatusCode.ERROR
    assert not span.status.description
    assert not span.events
    recorded.clear()
    queue.pop(ack=message)
    assert attributes(recorded.one("ack"))["error.type"] == "LeaseLost"


def test_an_ack_that_acked_nothing_and_what_became_a_dead_letter_can_be_seen(
    recorded: Recorded, name: str
) -> None:
    queue = recorded.connect(Queue, name, max_receives=2)
    queue.push_many([{"id": "acked"}, {"id": "nacked"}, {"id": "rejected"}])
    acked, nacked, rejected = queue.pop_many(3)
    queue.ack(acked)
    queue.ack(acked)
    queue.reject(rejected, reason="no good")
    queue.nack(nacked, delay=0)
    again = queue.pop()
    queue.nack(again, delay=0)
    assert queue.stats().dead == 2
    first, second = (attributes(span) for span in recorded.spans("ack"))
    assert "ackq.settled_count" not in first
    assert second["ackq.settled_count"] == 0
    assert attributes(recorded.one("reject"))["ackq.dead_letter_count"] == 1
    returned, died = (attributes(span) for span in recorded.spans("nack"))
    assert "ackq.dead_letter_count" not in returned
    assert died["ackq.dead_letter_count"] == 1
    assert attributes(recorded.spans("pop")[-1])["ackq.message.receive_count"] == 2


def test_a_commit_links_to_the_producers_of_its_batch(recorded: Recorded, name: str) -> None:
    topic = recorded.connect(Topic, name)
    topic.subscribe("c", "oldest")
    for number in range(2):
        topic.publish({"n": number})
    topic.commit(topic.consume("c", 10))
    assert linked(recorded.one("commit")) == [id_of(span) for span in recorded.spans("publish")]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", [Queue, Topic])
def test_a_call_that_cannot_connect_has_a_span(
    recorded: Recorded, name: str, free_port: int, kind: Any
) -> None:
    away = recorded.connect(kind, name, port=free_port)
    push = away.push if kind is Queue else away.publish
    with pytest.raises(redis.ConnectionError):
        push({"id": "a-1"})
    (span,) = recorded.spans()
    assert attributes(span)["error.type"] == "ConnectionError"
    assert span.status.status_code is StatusCode.ERROR


def test_texts_of_errors_are_recorded_by_choice(queue: Any, recorded: Recorded, name: str) -> None:
    queue.push({"id": "a-1"})
    message = queue.pop()
    message.receipt += 1
    recorded.instrument(error_texts=True)
    with pytest.raises(LeaseLost):
        queue.ack(message)
    with pytest.raises(ValueError, match="hunter2"), ackq.otel.processing(message):
        raise ValueError("hunter2")
    for verb, text in (("ack", name), ("process", "hunter2")):
        (event,) = recorded.one(verb).events
        noted = event.attributes or {}
        assert text in str(noted["exception.message"])
        assert "Traceback" in str(noted["exception.stacktrace"])


def test_a_failed_call_has_the_type_of_its_error(
    queue: Any, recorded: Recorded, name: str, plain_client: redis.Redis
) -> None:
    plain_client.set(name, "text")
    with pytest.raises(KeyTypeError):
        queue.push({"id": "a-1"})
    with pytest.raises(KeyTypeError):
        queue.pop()
    plain_client.unlink(name)
    assert [attributes(span)["error.type"] for span in recorded.spans()] == ["KeyTypeError"] * 2
    assert [span.status.status_code for span in recorded.spans()] == [StatusCode.ERROR] * 2


def test_a_wrong_argument_is_refused_as_without_spans(recorded: Recorded, name: str) -> None:
    queue, topic = recorded.connect(Queue, name), recorded.connect(Topic, name)
    with pytest.raises(ConfigurationError):
        queue.ack("a-1")
    with pytest.raises(ConfigurationError):
        queue.pop(ack=["a-1"])
    with pytest.raises(ConfigurationError):
        queue.pop_many("ten")
    with pytest.raises(ConfigurationError):
        topic.commit(None)
    with pytest.raises(InvalidMessage):
        queue.push_many(7)
    assert recorded.spans()


def test_a_delay_queue(recorded: Recorded, name: str) -> None:
    queue = recorded.connect(DelayQueue, name)
    queue.push("k-1", {"n": 1})
    (message,) = queue.take()
    queue.delete(message)
    sent, received, settled = recorded.spans()
    assert names(recorded.spans()) == [f"push {name}", f"take {name}", f"delete {name}"]
    assert {attributes(span)["message.id"] for span in recorded.spans()} == {"k-1"}
    assert linked(received) == linked(settled) == [id_of(sent)]


def test_a_partition_is_named(recorded: Recorded, name: str) -> None:
    queue = recorded.connect(PartitionedDelayQueue, name, 4)
    queue.push("k-1", {"n": 1}, partition=3)
    (message,) = queue.take()
    queue.nack(message, delay=0)
    assert [attributes(span)["destination.partition.id"] for span in recorded.spans()] == ["3"] * 3
    queue.close()


def test_a_topic(recorded: Recorded, name: str) -> None:
    topic = recorded.connect(Topic, name)
    topic.subscribe("mailer")
    index = topic.publish({"n": 1})
    topic.publish_many([{"n": 2}, {"n": 3}])
    batch = topic.consume("mailer", 10)
    empty = topic.consume("mailer", commit=batch)
    assert not empty
    single, several, received, committed = recorded.spans()
    assert single.name == f"publish {name}"
    assert attributes(single)["message.id"] == str(index)
    assert linked(received) == [id_of(single), id_of(several)]
    for span in (received, committed):
        assert attributes(span)["consumer.group.name"] == "mailer"
        assert attributes(span)["batch.message_count"] == 3
    assert committed.name == f"commit {name}"


def test_rsmq(recorded: Recorded, token: str) -> None:
    queues = recorded.connect(RSMQ, token)
    queues.create_queue("mails")
    id = queues.send_message("mails", '{"n": 1}')
    message = queues.receive_message("mails")
    queues.delete_message("mails", message.id)
    expected = [f"{verb} {token}:mails" for verb in ("send", "receive", "delete")]
    assert names(recorded.spans()) == expected
    assert {attributes(span)["message.id"] for span in recorded.spans()} == {id}
    assert message.body == b'{"n": 1}'  # text is stored as it is
    with pytest.raises(QueueNotFound):
        queues.send_message("none", "x")
    assert attributes(recorded.spans()[-1])["error.type"] == "QueueNotFound"


def test_a_push_to_several_shards_is_one_span_and_each_pop_names_its_shard(
    recorded: Recorded, token: str
) -> None:
    queue = recorded.connect(ShardedQueue, token, 2)
    keys = [next(str(n) for n in range(9) if shard_of(str(n), 2) == each) for each in range(2)]
    queue.push_many([{"n": n} for n in range(4)], key=lambda each: keys[each["n"] % 2])
    sent = recorded.one("push")
    assert attributes(sent)["batch.message_count"] == 4
    assert sent.name == f"push {token}"
    taken = [message for _ in range(2) for message in queue.pop_many(10)]
    assert len(taken) == 4
    pops = recorded.spans("pop")
    assert {span.name for span in pops} == {f"pop {token}"}
    assert {attributes(span)["destination.partition.id"] for span in pops} == {"0", "1"}
    assert [linked(span) for span in pops] == [[id_of(sent)]] * 2
    queue.ack(*taken)
    queue.close()


def test_spans_are_children_of_the_current_one_and_are_not_current_themselves(
    recorded: Recorded, queue: Any
) -> None:
    with recorded.tracer.start_as_current_span("request") as request:
        queue.push({"id": "a-1"})
        queue.push({"id": "a-2"})
    parents = [span.parent.span_id for span in recorded.spans("push") if span.parent]
    assert parents == [id_of(request)] * 2


def test_nothing_of_a_body_is_recorded(recorded: Recorded, name: str) -> None:
    queue: Any = recorded.connect(Queue, name)
    queue.push({"id": "a-1", "password": "hunter2"})
    message = queue.pop()
    queue.reject(message, reason="hunter2")
    assert "hunter2" not in " ".join(span.to_json() for span in recorded.spans())


def test_a_send_over_shards_that_is_interrupted_ends_its_span(recorded: Recorded) -> None:
    assert observation.observer is not None
    with pytest.raises(KeyboardInterrupt), observation.observer.sending("jobs", "server", [{}]):
        raise KeyboardInterrupt
    assert attributes(recorded.one("push"))["error.type"] == "KeyboardInterrupt"
