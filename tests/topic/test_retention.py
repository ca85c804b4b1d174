"""Retention by age and by count, and the error for a consumer whose messages are gone."""

import pytest

from ackq.errors import PlaceLost
from ackq.topic import Topic
from tests.topic.conftest import Keys, MakeTopic, bodies, indexes
from tests.waiting import wait_until


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % index for index in range(first, last + 1)]


def live(keys: Keys, last: int) -> list[int]:
    return [index for index in range(1, last + 1) if keys.message(index) is not None]


def test_messages_expire_at_their_age_read_or_not(make_topic: MakeTopic, keys: Keys) -> None:
    make_topic(max_age=100.0).publish_many(numbers(1, 2))
    make_topic(max_age=0.05).publish(b"3")
    make_topic().publish(b"4")
    assert 90_000 < keys.client.pttl(keys.key("messages:1")) <= 100_000
    assert keys.client.ttl(keys.key("messages:4")) == keys.client.ttl(keys.key("nextIndex")) == -1
    wait_until(lambda: keys.message(3) is None, "the message to expire")
    assert live(keys, 4) == [1, 2, 4]


def test_a_publish_leaves_max_messages(make_topic: MakeTopic, keys: Keys) -> None:
    topic = make_topic(max_messages=3)
    for index in range(1, 8):
        topic.publish(b"%d" % index)
        assert live(keys, 9) == list(range(max(1, index - 2), index + 1))
    topic.publish_many(numbers(8, 20))
    assert live(keys, 20) == [18, 19, 20]
    assert topic.oldest() == 18


def test_count_is_kept_by_several_producers_and_after_those_that_do_not(
    make_topic: MakeTopic, keys: Keys
) -> None:
    make_topic().publish_many(numbers(1, 300))
    one, other = make_topic(max_messages=10), make_topic(max_messages=10)
    for _ in range(30):
        one.publish_many([b"x"] * 5)
        other.publish_many([b"y"] * 5)
    assert live(keys, 600) == list(range(591, 601))


def test_one_publish_trims_a_bounded_number(make_topic: MakeTopic, keys: Keys) -> None:
    make_topic().publish_many(numbers(1, 100))
    make_topic(max_messages=1).publish(b"101")
    make_topic(max_messages=1).publish(b"102")
    assert 70 < len(live(keys, 102)) < 100


def test_trim_deletes_all_but_some(topic: Topic, keys: Keys) -> None:
    topic.publish_many(numbers(1, 2500))
    assert topic.trim(10_000) == 0
    assert topic.trim(4) == 2496
    assert live(keys, 2500) == [2497, 2498, 2499, 2500]
    assert topic.trim(0) == 4
    assert topic.oldest() is None
    assert topic.publish(b"next") == 2501


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_a_place_that_was_trimmed_is_an_error_and_nothing_is_skipped(
    make_topic: MakeTopic, keys: Keys, delivery: str
) -> None:
    topic = make_topic(delivery=delivery)
    topic.publish_many(numbers(1, 10))
    topic.subscribe("c")
    topic.commit(topic.consume("c", 2))
    topic.trim(4)
    for _ in range(2):
        with pytest.raises(PlaceLost) as raised:
            topic.consume("c", 3)
        assert (raised.value.consumer, raised.value.first, raised.value.last) == ("c", 3, 6)
        assert keys.place("c") == 2
    topic.seek("c", "oldest")
    assert bodies(topic.consume("c", 9)) == numbers(7, 10)


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_a_gap_may_be_reported_instead(make_topic: MakeTopic, keys: Keys, delivery: str) -> None:
    topic = make_topic(delivery=delivery, on_trimmed="report")
    topic.publish_many(numbers(1, 10))
    keys.client.set(keys.key("consumers:c"), 0)
    keys.expire(1, 2, 3, 6, 7, 10)
    seen = []
    while batch := topic.consume("c", 4):
        seen.append((list(batch.missing), indexes(batch), batch.first, batch.last))
        topic.commit(batch)
    assert seen == [
        ([1, 2, 3], [4, 5], 1, 5),
        ([6, 7], [8, 9], 6, 9),
        ([10], [], 10, 10),
    ]
    assert keys.place("c") == 10


def test_a_long_gap_is_reported_whole(make_topic: MakeTopic, keys: Keys) -> None:
    topic = make_topic(on_trimmed="report")
    topic.publish_many([b"x"] * 3500)
    topic.subscribe("c")
    keys.expire(*range(1, 3201))
    batch = topic.consume("c", 1)
    assert batch.missing == range(1, 3201)
    assert indexes(batch) == [3201]
    assert topic.oldest() == 3201


def test_a_gap_in_a_range_that_came_back_ends_with_the_range(
    make_topic: MakeTopic, keys: Keys
) -> None:
    topic = make_topic(on_trimmed="report")
    topic.publish_many(numbers(1, 9))
    topic.subscribe("c")
    topic.consume("c", 3)
    other = topic.consume("c", 3)
    keys.expire(2, 3, 4)
    keys.client.zadd(
        keys.key("leases:c"),
        {min(keys.leases("c"), key=lambda member: member): 1},
        xx=True,
    )
    first, second = topic.consume("c", 9), topic.consume("c", 9)
    assert (first.missing, indexes(first)) == (range(1, 1), [1])
    assert (second.missing, indexes(second)) == (range(2, 4), [])
    assert bool(second)
    assert indexes(topic.consume("c", 9)) == [7, 8, 9]
    assert topic.commit(first, second, other) == 3
    assert keys.place("c") == 6


def test_a_new_consumer_starts_at_the_oldest_that_is_there(topic: Topic, keys: Keys) -> None:
    topic.publish_many(numbers(1, 6))
    topic.trim(5)
    keys.expire(2, 3)
    topic.subscribe("c")
    assert bodies(topic.consume("c", 9)) == numbers(4, 6)
