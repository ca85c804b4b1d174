"""A batch is published in a topic once, after its commit, under indexes without gaps."""

import threading
from collections.abc import Callable

import pytest

from ackq.errors import IndexTaken
from ackq.staging.keys import Staged
from ackq.topic import Topic
from ackq.topic.staging_client import TopicStaging
from tests.servers import Target
from tests.staging.test_staging import commit_and_die, keys, rows, stage

Make = Callable[..., TopicStaging]


@pytest.fixture
def topic(opened: Callable[..., Topic], name: str) -> Topic:
    return opened(Topic, name)


def read(topic: Topic) -> list[bytes]:
    """Return all messages from the first index on."""
    topic.subscribe("reader", "oldest")
    found: list[bytes] = []
    batch = topic.consume("reader", 1000)
    while batch:
        found += [message.body for message in batch]
        batch = topic.consume("reader", 1000, commit=batch)
    return found


def test_rows_get_the_next_indexes_in_their_order(
    make_topic_writer: Make, topic: Topic, target: Target, name: str
) -> None:
    assert topic.publish(b"before") == 1
    writer = make_topic_writer()
    staged = [stage(writer, 0, rows(2500, str(task)), f"{task}-a") for task in range(2)]
    assert writer.commit(0, staged) == 5000
    assert topic.publish(b"after") == 5002
    assert read(topic) == [b"before", *rows(2500, "0"), *rows(2500, "1"), b"after"]
    assert not {key for key in keys(target, name) if "staged" in key or "held" in key}


def test_a_batch_that_was_committed_is_dropped(make_topic_writer: Make, topic: Topic) -> None:
    writer = make_topic_writer()
    writer.commit(7, [stage(writer, 7, rows(10))])
    assert writer.commit(7, [stage(writer, 7, rows(10), "0-b")]) == 0
    assert read(topic) == rows(10)


@pytest.mark.parametrize("requests", [1, 2, 3, 4])
def test_a_driver_may_die_after_any_request_of_a_commit(
    make_topic_writer: Make, topic: Topic, requests: int
) -> None:
    writer = make_topic_writer()
    commit_and_die(writer, 3, [stage(writer, 3, rows(2500))], requests)
    topic.publish(b"between")
    again = make_topic_writer()
    again.commit(3, [stage(again, 3, rows(2500), "0-b")])
    found = read(topic)
    assert sorted(found) == sorted([b"between", *rows(2500)])
    assert [body for body in found if body != b"between"] == rows(2500)


def test_the_next_commit_of_any_writer_publishes_what_is_left(
    make_topic_writer: Make, topic: Topic
) -> None:
    writer = make_topic_writer()
    commit_and_die(writer, 3, [stage(writer, 3, rows(2500))], 3)
    other = make_topic_writer("other")
    assert other.finish() == 1
    assert read(topic) == rows(2500)


def test_other_producers_get_indexes_of_their_own_meanwhile(
    make_topic_writer: Make, topic: Topic
) -> None:
    writer = make_topic_writer()
    staged = stage(writer, 0, rows(20_000))
    stop = threading.Event()
    published: list[bytes] = []

    def publish() -> None:
        while not stop.is_set():
            body = b"other-%d" % len(published)
            topic.publish(body)
            published.append(body)

    producer = threading.Thread(target=publish)
    producer.start()
    try:
        writer.commit(0, [staged])
    finally:
        stop.set()
        producer.join()
    found = read(topic)
    assert [body for body in found if body.startswith(b"{")] == rows(20_000)
    assert [body for body in found if body.startswith(b"other")] == published


def test_messages_expire_and_are_trimmed_as_asked(
    make_topic_writer: Make, topic: Topic, target: Target, name: str
) -> None:
    writer = make_topic_writer(max_age=3600.0, max_messages=100)
    writer.commit(0, [stage(writer, 0, rows(1500))])
    assert read(topic) == rows(1500)[-100:]
    assert 0 < target.control.pttl(f"{name}:messages:1500") <= 3_600_000


def test_a_consumer_that_waits_is_woken(make_topic_writer: Make, topic: Topic) -> None:
    writer, staged = make_topic_writer(), Staged("0-a")
    writer.stage(0, staged, rows(3))
    topic.subscribe("waiter")
    found: list[bytes] = []
    waiter = threading.Thread(
        target=lambda: found.extend(each.body for each in topic.consume("waiter", 10, timeout=30))
    )
    waiter.start()
    writer.commit(0, [staged])
    waiter.join()
    assert found == rows(3)


def test_a_message_beyond_the_newest_index_is_not_overwritten(
    make_topic_writer: Make, topic: Topic, target: Target, name: str
) -> None:
    target.control.set(f"{name}:messages:2", b"precious")
    writer = make_topic_writer()
    staged = stage(writer, 0, rows(3))
    with pytest.raises(IndexTaken, match="the committed rows wait"):
        writer.commit(0, [staged])
    assert target.control.get(f"{name}:messages:2") == b"precious"
    target.control.delete(f"{name}:messages:2")
    assert writer.finish() == 1
    assert read(topic) == rows(3)
