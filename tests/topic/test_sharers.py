"""Many readers under one id, in threads and processes, and the faults that they may meet."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from ackq import UnknownOutcome
from ackq.embedded import Server
from ackq.topic import Topic
from tests.faults.proxy import Proxy
from tests.topic.conftest import Keys, MakeTopic, bodies, indexes


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_sharers_get_every_message_once(make_topic: MakeTopic, keys: Keys, delivery: str) -> None:
    topics = [make_topic(delivery=delivery) for _ in range(5)]
    topics[0].publish_many([b"%d" % n for n in range(1, 401)])
    topics[0].subscribe("c")
    got: list[Any] = []

    def read(topic: Topic, n: int) -> None:
        done: Any = ()
        while batch := topic.consume("c", n, commit=done):
            got.append(batch)
            done = batch

    threads = [threading.Thread(target=read, args=(topic, n + 1)) for n, topic in enumerate(topics)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(index for batch in got for index in indexes(batch)) == list(range(1, 401))
    assert all(bodies(batch) == [b"%d" % index for index in indexes(batch)] for batch in got)
    assert keys.place("c") == 400
    assert not keys.ranges("c")
    assert not keys.leases("c")


def test_a_consumer_cut_short_between_thousands_of_ranges_catches_up(
    plain: Callable[..., Topic], plain_keys: Keys
) -> None:
    topic = plain()
    topic.publish_many([b"x"] * 2500)
    topic.subscribe("c")
    batches = [topic.consume("c") for _ in range(2500)]
    topic.commit(*batches[1:])
    assert plain_keys.place("c") == 0
    topic.commit(batches[0])
    assert plain_keys.place("c") == 1000
    assert not topic.consume("c")
    assert plain_keys.place("c") == 2500
    assert not plain_keys.ranges("c")


@pytest.fixture
def proxied(server: Server, token: str) -> Iterator[tuple[Proxy, Topic, Keys]]:
    """A topic behind a proxy that loses replies, and its keys."""
    assert server.port is not None
    with (
        Proxy(server.port) as proxy,
        Topic.from_url(proxy.url, token) as topic,
        redis.Redis.from_url(server.url) as client,
    ):
        yield proxy, topic, Keys(client, token)


@pytest.mark.parametrize("kind", ["lose_reply", "lose_request"])
def test_an_idempotent_publish_is_sent_again(proxied: tuple[Proxy, Topic, Keys], kind: Any) -> None:
    proxy, topic, keys = proxied
    topic.publish(b"1")
    proxy.fail(b"EVALSHA", kind)
    assert topic.publish(b"2", dedup="once") == 2
    assert keys.newest() == 2


def test_a_read_whose_reply_is_lost_comes_back_and_its_commits_are_kept(
    proxied: tuple[Proxy, Topic, Keys],
) -> None:
    proxy, topic, keys = proxied
    topic.publish_many([b"1", b"2", b"3"])
    topic.subscribe("c")
    kinds: tuple[Any, ...] = ("lose_reply", "lose_request")
    for kind in kinds:
        batch = topic.consume("c")
        proxy.fail(b"EVALSHA", kind)
        with pytest.raises(UnknownOutcome):
            topic.consume("c", commit=batch)
        assert keys.place("c") == batch.last
        keys.end_leases("c")
    assert indexes(topic.consume("c")) == [3]


def test_a_commit_whose_reply_is_lost_is_sent_again(proxied: tuple[Proxy, Topic, Keys]) -> None:
    proxy, topic, keys = proxied
    topic.publish_many([b"1", b"2"])
    topic.subscribe("c")
    topic.commit(topic.consume("c"))
    batch = topic.consume("c")
    proxy.fail(b"EVALSHA", "lose_reply")
    assert topic.commit(batch) == 0  # it was by then
    assert keys.place("c") == 2
