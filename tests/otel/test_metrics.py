"""The metrics of the conventions."""

from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.errors import KeyTypeError
from ackq.otel.telemetry import BUCKETS
from tests.otel.conftest import Recorded


def test_messages_are_counted_as_they_are_sent_and_received(recorded: Recorded, name: str) -> None:
    queue = recorded.connect(Queue, name)
    queue.push({"n": 0})
    queue.push_many([{"n": n} for n in range(4)])
    queue.pop()
    queue.ack(*queue.pop_many(10))
    assert queue.pop() is None
    ((sent, point),) = recorded.points("messaging.client.sent.messages")
    assert point.value == 5
    host, port = queue.address.partition("/")[0].split(":")
    assert sent == {
        "system": "ackq",
        "operation.name": "push",
        "operation.type": "send",
        "destination.name": name,
        "server.address": host,
        "server.port": int(port),
    }
    ((received, point),) = recorded.points("messaging.client.consumed.messages")
    assert point.value == 5
    assert received["operation.name"] == "pop"


def test_durations_have_the_buckets_of_the_conventions(recorded: Recorded, queue: Any) -> None:
    queue.push_many([{"n": n} for n in range(4)])
    queue.ack(*queue.pop_many(10))
    points = recorded.points("messaging.client.operation.duration")
    assert {attrs["operation.name"] for attrs, _ in points} == {"push", "pop", "ack"}
    for _, point in points:
        assert point.count == 1
        assert point.explicit_bounds == BUCKETS


def test_failures_have_the_type_of_their_error(
    queue: Any, recorded: Recorded, name: str, plain_client: redis.Redis
) -> None:
    queue.push({"n": 0})
    plain_client.set(name + "x", "text")
    broken = recorded.connect(Queue, name + "x")
    with pytest.raises(KeyTypeError):
        broken.push({"n": 0})
    points = recorded.points("messaging.client.sent.messages")
    assert [(attrs.get("error.type"), point.value) for attrs, point in points] == [
        (None, 1),
        ("KeyTypeError", 1),
    ]
    points = recorded.points("messaging.client.operation.duration")
    assert [attrs.get("error.type") for attrs, _ in points] == [None, "KeyTypeError"]
