"""For how long messages wait: as far as it is stored, and never guessed."""

import time
from typing import Any

import pytest

from ackq.queue.client import Queue
from tests.servers.target import Target
from tests.waiting import wait_until


def test_the_oldest_ready_message_has_an_age_if_its_time_is_known(
    make_queue: Any, target: Target
) -> None:
    queue = make_queue(time_field="created_at")
    assert queue.oldest_ready() == 0
    ago = time.time() - 600
    target.control.lpush(queue.name, b'{"id":"a","created_at":%d}' % (ago * 1000))
    queue.push_many([{"id": "b"}, {"id": "c", "created_at": None}])
    assert queue.oldest_ready() == pytest.approx(600, abs=20)
    message = queue.pop()
    assert message.created_at == pytest.approx(ago, abs=0.002)
    assert message.time_in_queue == pytest.approx(600, abs=20)
    queue.nack(message, delay=0.001)
    wait_until(lambda: queue.stats().due, "the message to be due")
    assert 0 <= queue.oldest_ready() < 30  # ready again since it was due
    queue.ack(queue.pop())
    assert 0 <= queue.oldest_ready() < 30
    filled, empty = queue.peek()
    assert filled.created_at == pytest.approx(time.time(), abs=20)
    assert (empty.body, empty.created_at) == (b'{"id":"c","created_at":null}', None)
    queue.ack(queue.pop())
    assert queue.oldest_ready() is None
    unknown = queue.pop()
    assert (unknown.created_at, unknown.time_in_queue) == (None, None)
    assert queue.oldest_ready() == 0


def test_without_a_time_field_nothing_is_added_and_cloudevents_are_read(queue: Any) -> None:
    queue.push({"id": "a", "created_at": 1})
    queue.push({"id": "b", "specversion": "1.0", "time": "2018-04-05T17:31:00Z"})
    assert queue.oldest_ready() is None
    plain, event = queue.pop(), queue.pop()
    assert plain.body == b'{"id":"a","created_at":1}'
    assert plain.created_at is None
    assert event.created_at == 1522949460
    queue.release(event)
    (peeked,) = queue.peek()
    assert peeked.created_at == 1522949460


def test_the_time_in_queue_ends_with_the_delivery(make_queue: Any) -> None:
    queue = make_queue(time_field="at")
    queue.push({"id": "future", "at": time.time() + 3600})
    queue.push({"id": "now"})
    future, message = queue.pop_many(2, visibility_timeout=7200)
    assert future.time_in_queue == 0
    first = message.time_in_queue
    assert 0 <= first < 20
    wait_until(lambda: time.time() > message.created_at + first + 0.05, "a moment to pass")
    assert message.time_in_queue == first


def test_bytes_and_messages_that_have_a_time_are_pushed_unchanged(
    plain_client: Any, name: str
) -> None:
    with Queue(plain_client, name, time_field="t", max_body_bytes=40) as queue:
        queue.push(b'{"id":"a"}')
        queue.push({"id": "b", "t": None})
        queue.push({"id": "c", "x": "y" * 20})  # there is no room for the time
        bodies = [each.body for each in queue.peek()]
    assert bodies == [b'{"id":"a"}', b'{"id":"b","t":null}', b'{"id":"c","x":"%s"}' % (b"y" * 20)]
