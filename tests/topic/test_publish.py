"""Publishing: one order without gaps, whatever the messages, however many producers."""

import dataclasses
import threading
from typing import Any

import pytest

from ackq import (
    CrossSlotError,
    QueueNameError,
)
from ackq.errors import IndexTaken, PublishContention
from ackq.topic import Topic
from tests.large import CALLS, MAX_BODY_BYTES, large_bodies
from tests.servers import Target
from tests.topic.conftest import Keys, MakeTopic, bodies

CORPUS = [
    b"",
    b"\0",
    b"\r\n",
    b"\xff\xfe\x80",
    b"nul\0inside",
    b"{",
    b'{"id":',
    b"[[[[",
    b"null",
    b"*1\r\n$4\r\nPING\r\n",
    b"$-1\r\n",
    "ä☃".encode(),
    b"x" * (1 << 20),
]


@dataclasses.dataclass
class Point:
    x: int
    y: int


def test_messages_get_the_next_indexes_and_are_stored_as_the_article_does(
    topic: Topic, keys: Keys
) -> None:
    assert topic.publish(b"one") == 1
    assert topic.publish_many([b"two", b"three"]) == [2, 3]
    assert keys.newest() == topic.newest() == 3
    assert [keys.message(index) for index in (1, 2, 3)] == [b"one", b"two", b"three"]


def test_a_mapping_and_a_dataclass_are_stored_as_json(topic: Any) -> None:
    topic.publish_many([{"price": 5}, Point(1, 2)])
    topic.subscribe("c")
    assert [message.json() for message in topic.consume("c", 2)] == [{"price": 5}, {"x": 1, "y": 2}]


def test_any_bytes_come_back_as_they_were(topic: Topic) -> None:
    topic.publish_many(CORPUS)
    for body in CORPUS:
        topic.publish(body)
    topic.subscribe("c")
    found: list[bytes] = []
    while batch := topic.consume("c", 7):
        found += bodies(batch)
        topic.commit(batch)
    assert found == CORPUS * 2


def test_more_than_fits_one_call_is_published_in_chunks(topic: Topic, keys: Keys) -> None:
    assert topic.publish_many([b"%d" % n for n in range(2500)]) == list(range(1, 2501))
    assert keys.message(2500) == b"2499"


def test_a_call_stores_4_mib_at_most(make_topic: MakeTopic, target: Target) -> None:
    topic = make_topic(max_body_bytes=MAX_BODY_BYTES)
    topic.publish(b"the script is loaded, and the next index known")
    before = target.calls("evalsha")
    bodies = large_bodies()
    assert len(topic.publish_many(bodies)) == len(bodies)
    assert target.calls("evalsha") - before == len(CALLS)


def test_a_guess_that_is_wrong_costs_a_look_and_no_gap(make_topic: MakeTopic, keys: Keys) -> None:
    one, other = make_topic(), make_topic()
    assert [one.publish(b"1"), other.publish(b"2"), one.publish(b"3")] == [1, 2, 3]
    keys.client.set(keys.key("nextIndex"), 500)
    assert other.publish(b"501") == 501


def test_it_gives_up_after_the_attempts_that_were_allowed(
    make_topic: MakeTopic, keys: Keys
) -> None:
    topic = make_topic(publish_attempts=1)
    keys.client.set(keys.key("nextIndex"), 500)
    with pytest.raises(PublishContention) as raised:
        topic.publish(b"x")
    assert raised.value.stored == 0
    assert keys.newest() == 500
    assert topic.publish(b"x") == 501


def test_nothing_beyond_the_newest_index_is_overwritten(make_topic: MakeTopic, keys: Keys) -> None:
    for settings in ({}, {"max_age": 60.0}):
        topic = make_topic(**settings)  # type: ignore[arg-type]
        topic.publish_many([b"kept", b"kept"])
        keys.client.set(keys.key("nextIndex"), 0)
        with pytest.raises(IndexTaken):
            topic.publish(b"other")
        assert keys.newest() == 0
        keys.client.set(keys.key("nextIndex"), 2)
        assert topic.publish(b"next") == 3
        assert [keys.message(index) for index in (1, 2)] == [b"kept", b"kept"]
        topic.trim(0)
        keys.client.delete(keys.key("nextIndex"), keys.key("firstIndex"))


def test_a_topic_may_be_begun_anew(make_topic: MakeTopic, keys: Keys) -> None:
    topic = make_topic(max_messages=2)
    topic.publish_many([b"old"] * 5)
    topic.trim(0)
    keys.client.delete(keys.key("nextIndex"))
    assert topic.publish(b"new") == 1
    topic.subscribe("c")
    assert bodies(topic.consume("c", timeout=5)) == [b"new"]
    assert topic.consume("c", timeout=0.05).last == 0
    assert [topic.publish(b"new") for _ in range(3)] == [2, 3, 4]
    assert [keys.message(index) for index in (1, 2, 3, 4)] == [None, None, b"new", b"new"]


def test_a_publish_with_a_dedup_key_is_stored_once(make_topic: MakeTopic, keys: Keys) -> None:
    topic = make_topic()
    assert topic.publish(b"first", dedup="order 1") == 1
    assert topic.publish(b"between") == 2
    assert make_topic().publish(b"again", dedup="order 1") == 1
    assert topic.publish(b"other", dedup="order 2") == 3
    assert keys.message(1) == b"first"
    assert 0 < keys.client.pttl(keys.key("dedup:order 1")) <= 3_600_000


@pytest.mark.parametrize("batch", [1, 7])
def test_many_producers_leave_no_gap_and_overwrite_nothing(
    make_topic: MakeTopic, keys: Keys, batch: int
) -> None:
    producers, rounds = 6, 25
    topics = [make_topic() for _ in range(producers)]
    confirmed: dict[int, bytes] = {}

    def produce(number: int) -> None:
        for round_ in range(rounds):
            sent = [b"%d-%d-%d" % (number, round_, n) for n in range(batch)]
            indexes = topics[number].publish_many(sent)
            assert indexes == list(range(indexes[0], indexes[0] + batch))
            confirmed.update(zip(indexes, sent, strict=True))

    threads = [threading.Thread(target=produce, args=(n,)) for n in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(confirmed) == list(range(1, producers * rounds * batch + 1))
    assert all(keys.message(index) == body for index, body in confirmed.items())


@pytest.mark.parametrize("name", ["", "a:messages", "a:consumers:b", "a\nb", "x" * 201, "{a"])
def test_a_name_that_would_collide_is_refused(plain: Any, name: str) -> None:
    with pytest.raises(QueueNameError):
        Topic.from_url("redis://127.0.0.1:1", name)


def test_a_cluster_needs_a_hash_tag(make_topic: MakeTopic, target: Target, token: str) -> None:
    if not target.cluster:
        pytest.skip("only a cluster needs one")
    with pytest.raises(CrossSlotError):
        make_topic(name=token).publish(b"x")
