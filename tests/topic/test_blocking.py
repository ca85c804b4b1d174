"""Waiting for messages: woken at once by ackq's producers, within a second by others."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from ackq import ConfigurationError
from ackq.core.effects import Request
from ackq.topic import Topic
from tests.servers import Target
from tests.topic.conftest import Keys, MakeTopic, bodies, indexes
from tests.waiting import wait_until


def blocked(client: Any) -> int:
    """Count the clients that wait, on all nodes of a cluster."""
    if isinstance(client, redis.Redis):
        return int(client.info("clients")["blocked_clients"])
    infos = client.info("clients", target_nodes=type(client).PRIMARIES)
    found = infos.values() if "blocked_clients" not in infos else [infos]
    return sum(int(info["blocked_clients"]) for info in found)


class Waiter(threading.Thread):
    """Consumes one batch and notes when it came."""

    def __init__(self, topic: Topic, consumer: str, timeout: float = 10) -> None:
        super().__init__()
        self.topic, self.consumer, self.timeout = topic, consumer, timeout
        self.batch: Any = None
        self.came = math.inf
        self.start()

    def run(self) -> None:
        self.batch = self.topic.consume(self.consumer, timeout=self.timeout)
        self.came = time.monotonic()


def test_a_publish_wakes_every_consumer_at_once(make_topic: MakeTopic, keys: Keys) -> None:
    topic = make_topic()
    for consumer in ("a", "b", "c"):
        topic.subscribe(consumer)
    waiters = [Waiter(make_topic(), consumer) for consumer in ("a", "b", "c")]
    wait_until(lambda: blocked(keys.client) >= 3, "three to wait")
    # Between two stretches, which last a second, a waiter asks again: publish in the middle.
    published = time.monotonic()
    topic.publish(b"x")
    for waiter in waiters:
        waiter.join()
        assert bodies(waiter.batch) == [b"x"]
    assert min(waiter.came for waiter in waiters) - published < 0.5


def test_it_sleeps_in_the_server_and_not_on_a_timer(plain: Callable[..., Topic]) -> None:
    topic = plain()
    topic.subscribe("c")
    calls: list[Any] = []
    send = topic._driver._request
    topic._driver._request = lambda request: calls.append(request) or send(request)  # type: ignore[method-assign, func-returns-value]
    assert not topic.consume("c", timeout=2.5)
    requests = [step.args[0] for step in calls]
    assert requests.count(b"XREAD") == 3
    # One of these a second looks for rows that a writer left.
    assert len(requests) - requests.count(b"ZRANGEBYSCORE") == 7
    assert requests.count(b"ZRANGEBYSCORE") <= 3


def test_a_message_published_between_the_look_and_the_wait_is_not_missed(
    plain: Callable[..., Topic],
) -> None:
    topic, producer = plain(), plain()
    topic.subscribe("c")
    send = topic._driver._request

    def publish_before_waiting(request: Request) -> Any:
        if request.args[0] == b"XREAD":
            producer.publish(b"x")
        return send(request)

    topic._driver._request = publish_before_waiting  # type: ignore[method-assign]
    took = []
    for _ in range(3):  # not all of them on a busy machine's worst moments
        before = time.monotonic()
        batch = topic.consume("c", timeout=10)
        took.append(time.monotonic() - before)
        assert bodies(batch) == [b"x"]
        topic.commit(batch)
    assert min(took) < 0.7


def test_a_publish_of_another_language_is_noticed_within_a_second(
    make_topic: MakeTopic, keys: Keys
) -> None:
    topic = make_topic()
    topic.subscribe("c")
    waiter = Waiter(topic, "c")
    wait_until(lambda: blocked(keys.client), "it to wait")
    keys.client.set(keys.key("messages:1"), b"x")
    keys.client.set(keys.key("nextIndex"), 1)
    published = time.monotonic()
    waiter.join()
    assert bodies(waiter.batch) == [b"x"]
    assert waiter.came - published < 5


def test_a_range_that_comes_back_wakes_a_waiting_sharer(make_topic: MakeTopic) -> None:
    topic = make_topic()
    topic.publish(b"x")
    topic.subscribe("c")
    dead = topic.consume("c", visibility_timeout=0.3)
    before = time.monotonic()
    assert indexes(make_topic().consume("c", timeout=10)) == [1]
    assert 0.1 < time.monotonic() - before < 5
    assert dead


def test_a_wait_for_a_range_that_comes_back_sleeps_in_the_server(
    topic: Topic, target: Target
) -> None:
    topic.publish(b"x")
    topic.subscribe("c")
    assert topic.consume("c", visibility_timeout=0.5)
    before = target.calls("evalsha", "xread")
    assert indexes(topic.consume("c", timeout=30)) == [1]
    assert target.calls("evalsha", "xread") - before < 15


def test_one_message_goes_to_one_of_the_waiting_sharers(make_topic: MakeTopic, keys: Keys) -> None:
    topic = make_topic()
    topic.subscribe("c")
    sharers = [make_topic() for _ in range(4)]
    waiters = [Waiter(sharer, "c", timeout=3) for sharer in sharers]
    wait_until(lambda: blocked(keys.client) >= 4, "four to wait")
    topic.publish(b"x")
    for waiter in waiters:
        waiter.join()
    assert sorted(len(waiter.batch) for waiter in waiters) == [0, 0, 0, 1]


def test_a_wait_ends_at_its_timeout(topic: Any) -> None:
    topic.subscribe("c")
    before = time.monotonic()
    assert not topic.consume("c", timeout=0.2)
    assert 0.15 < time.monotonic() - before < 5
    for bad in (-1, math.nan, "1", True):
        with pytest.raises(ConfigurationError):
            topic.consume("c", timeout=bad)


def test_what_is_left_of_a_deleted_topic_does_not_make_it_spin(
    plain: Callable[..., Topic], plain_keys: Keys
) -> None:
    topic = plain()
    topic.publish_many([b"x"] * 5)
    plain_keys.client.delete(plain_keys.key("nextIndex"))
    topic.subscribe("c", "end")
    calls: list[Any] = []
    send = topic._driver._request
    topic._driver._request = lambda request: calls.append(request) or send(request)  # type: ignore[method-assign, func-returns-value]
    assert not topic.consume("c", timeout=1.2)
    assert len(calls) < 20
