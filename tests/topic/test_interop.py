"""The article's producer and consumer, as another language would write them, on the same keys."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from ackq import LeaseLost
from ackq.topic import Topic
from tests.topic.conftest import Keys, bodies, indexes


class Article:
    """WATCH, read, increment locally, MULTI, EXEC, and again if it failed. Three keys."""

    def __init__(self, client: redis.Redis, topic: str) -> None:
        self._client = client
        self._topic = topic

    def publish(self, body: bytes) -> int:
        newest_key = f"{self._topic}:nextIndex"

        def store(pipe: Any) -> int:
            index = int(pipe.get(newest_key) or 0) + 1
            pipe.multi()
            pipe.set(f"{self._topic}:messages:{index}", body)
            pipe.set(newest_key, index)
            return index

        return int(self._client.transaction(store, newest_key, value_from_callable=True))  # type: ignore[arg-type]

    def consume(self, consumer: str) -> bytes | None:
        place_key = f"{self._topic}:consumers:{consumer}"
        while True:
            with self._client.pipeline() as pipe:
                pipe.watch(place_key)
                index = int(pipe.get(place_key) or 0) + 1
                if index > int(pipe.get(f"{self._topic}:nextIndex") or 0):
                    return None
                pipe.multi()
                pipe.set(place_key, index)
                pipe.get(f"{self._topic}:messages:{index}")
                try:
                    found: bytes | None = pipe.execute()[1]
                    return found
                except redis.WatchError:
                    continue

    def replay(self, consumer: str) -> None:
        self._client.set(f"{self._topic}:consumers:{consumer}", 0)


@pytest.fixture
def article(plain_client: redis.Redis, name: str) -> Article:
    return Article(plain_client, name)


def test_what_one_publishes_the_other_reads(plain: Callable[..., Topic], article: Article) -> None:
    topic = plain()
    assert [article.publish(b"1"), topic.publish(b"2"), article.publish(b"3")] == [1, 2, 3]
    topic.subscribe("ours")
    assert bodies(topic.consume("ours", 9)) == [b"1", b"2", b"3"]
    assert [article.consume("theirs") for _ in range(4)] == [b"1", b"2", b"3", None]
    topic.unsubscribe("theirs")
    topic.subscribe("theirs")
    assert article.consume("theirs") == b"1"


def test_producers_of_both_kinds_at_once_leave_no_gap(
    plain: Callable[..., Topic], article: Article, plain_keys: Keys
) -> None:
    topics = [plain(), plain()]

    def ours(topic: Topic) -> None:
        for n in range(60):
            topic.publish_many([b"o%d" % n] * 2)

    def theirs() -> None:
        for n in range(60):
            article.publish(b"a%d" % n)

    threads = [threading.Thread(target=ours, args=(topic,)) for topic in topics]
    threads += [threading.Thread(target=theirs) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert plain_keys.newest() == 60 * 2 * 2 + 60 * 2
    found = [plain_keys.message(index) for index in range(1, 361)]
    assert found.count(None) == 0
    assert all(found.count(b"a%d" % n) == 2 and found.count(b"o%d" % n) == 4 for n in range(60))


def test_a_consumer_moves_between_both_kinds(plain: Callable[..., Topic], article: Article) -> None:
    topic = plain()
    topic.publish_many([b"%d" % n for n in range(1, 7)])
    topic.subscribe("c")
    topic.commit(topic.consume("c", 2))
    assert article.consume("c") == b"3"
    assert bodies(topic.consume("c"))[:1] == [b"4"]
    assert bodies(topic.consume("c", 9)) == [b"5", b"6"]


def test_sharers_of_both_kinds_at_most_once_never_get_one_twice(
    plain: Callable[..., Topic], article: Article
) -> None:
    topic = plain(delivery="at_most_once")
    topic.publish_many([b"%d" % n for n in range(300)])
    topic.subscribe("c")
    got: list[bytes] = []

    def ours() -> None:
        while batch := topic.consume("c", 3):
            got.extend(bodies(batch))

    def theirs() -> None:
        while (body := article.consume("c")) is not None:
            got.append(body)

    threads = [threading.Thread(target=each) for each in (ours, ours, theirs, theirs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(b"%d" % n for n in range(300))


def test_a_foreign_reader_takes_leased_messages_too_and_nothing_is_lost(
    plain: Callable[..., Topic], article: Article, plain_keys: Keys
) -> None:
    topic = plain()
    topic.publish_many([b"%d" % n for n in range(1, 8)])
    topic.subscribe("c")
    first, second = topic.consume("c", 2), topic.consume("c", 3)
    assert [article.consume("c") for _ in range(3)] == [b"1", b"2", b"3"]
    assert topic.commit(first) == 1
    assert plain_keys.place("c") == 3
    plain_keys.end_leases("c")
    again = topic.consume("c", 9)
    assert indexes(again) == [4, 5]
    with pytest.raises(LeaseLost):
        topic.commit(second)
    topic.commit(again)
    assert plain_keys.place("c") == 5
    assert indexes(topic.consume("c", 9)) == [6, 7]


def test_a_foreign_reader_that_overtakes_all_leases_ends_them(
    plain: Callable[..., Topic], article: Article, plain_keys: Keys
) -> None:
    topic = plain()
    topic.publish_many([b"%d" % n for n in range(1, 6)])
    topic.subscribe("c")
    held = topic.consume("c", 2)
    for _ in range(3):
        article.consume("c")
    assert indexes(topic.consume("c", 9)) == [4, 5]
    assert topic.commit(held) == 0
    assert len(plain_keys.ranges("c")) == 1


def test_a_foreign_replay_voids_what_is_leased(
    plain: Callable[..., Topic], article: Article, plain_keys: Keys
) -> None:
    topic = plain()
    topic.publish_many([b"%d" % n for n in range(1, 8)])
    topic.subscribe("c")
    topic.commit(topic.consume("c", 3))
    held, later = topic.consume("c", 2), topic.consume("c", 1)
    topic.commit(later)
    article.replay("c")
    for _ in range(2):
        with pytest.raises(LeaseLost):
            topic.commit(held)
    assert plain_keys.place("c") == 0
    assert indexes(topic.consume("c", 9)) == [1, 2, 3, 4, 5, 6, 7]


def test_a_read_after_a_foreign_replay_begins_at_its_place(
    plain: Callable[..., Topic], article: Article
) -> None:
    topic = plain()
    topic.publish_many([b"%d" % n for n in range(1, 8)])
    topic.subscribe("c")
    topic.commit(topic.consume("c", 3))
    held = topic.consume("c", 2)
    article.replay("c")
    assert indexes(topic.consume("c", 9, commit=held)) == [1, 2, 3, 4, 5, 6, 7]
    assert held.lease_lost


def test_a_foreign_unsubscribe_is_understood(plain: Callable[..., Topic], plain_keys: Keys) -> None:
    topic = plain()
    topic.publish_many([b"1", b"2", b"3"])
    topic.subscribe("c")
    held, later = topic.consume("c"), topic.consume("c")
    topic.commit(later)
    plain_keys.client.delete(plain_keys.key("consumers:c"))
    with pytest.raises(LeaseLost):
        topic.commit(held)
    topic.subscribe("c")
    assert indexes(topic.consume("c", 9)) == [1, 2, 3]
