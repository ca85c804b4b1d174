"""The article's producers and consumers, on the same keys at the same time."""

import time

import pytest

import ackq
from ackq.delay import DelayQueue
from ackq.delay.messages import partition_of
from tests.delay.article import Article
from tests.delay.conftest import MakeDelay
from tests.servers import Target
from tests.waiting import wait_until

FAR = 4_000_000_000


def test_what_the_article_pushes_is_taken_and_deleted(
    delay: DelayQueue, article: Article, target: Target, name: str
) -> None:
    assert article.push("k", b"body", 1_700_000_000)
    assert not article.push("k", b"other", 1_700_000_000)
    (message,) = delay.take()
    assert (message.key, message.body, message.ready_time) == ("k", b"body", 1_700_000_000)
    assert delay.delete(message) == 1
    assert not target.control.exists(article.z)
    assert not target.control.exists(article.h)


def test_what_ackq_pushes_is_handled_and_deleted_by_the_article(
    delay: DelayQueue, article: Article
) -> None:
    delay.push("k", b"body", at=1_700_000_000)
    delay.push("later", b"x", at=FAR)
    ((key, score),) = article.due(int(time.time()))
    assert (key, score, article.body(key)) == (b"k", 1_700_000_000, b"body")
    article.delete(key)
    assert delay.stats().delayed == 1
    assert delay.take() == []


def test_the_article_sees_no_message_that_is_leased(delay: DelayQueue, article: Article) -> None:
    delay.push("k", b"body")
    (message,) = delay.take()
    assert article.due(int(time.time()) + 1) == []
    delay.delete(message)


def test_the_article_takes_over_a_message_whose_lease_ended(
    make_delay: MakeDelay, article: Article
) -> None:
    delay = make_delay(visibility_timeout=0.01)
    delay.push("k", b"body")
    (message,) = delay.take()
    wait_until(lambda: article.due(int(time.time()) + 1), "the lease to end")
    article.delete("k")
    with pytest.raises(ackq.LeaseLost):
        delay.delete(message)


def test_the_holder_learns_that_the_article_handled_its_message_meanwhile(
    delay: DelayQueue, article: Article
) -> None:
    article.push("k", b"body", 1)
    ((key, _),) = article.due(int(time.time()))  # its consumer lists, and is slow
    (message,) = delay.take()
    assert article.body(key) == b"body"
    article.delete(key)
    for settle in (delay.extend, delay.delete, delay.nack):
        message.lease_lost = False
        with pytest.raises(ackq.LeaseLost):
            settle(message)
        assert message.lease_lost


def test_a_new_message_under_the_key_of_a_leased_one_is_not_deleted_by_the_old_holder(
    make_delay: MakeDelay, article: Article
) -> None:
    delay = make_delay(visibility_timeout=0.3)
    article.push("k", b"old", 1)
    (message,) = delay.take()
    article.delete("k")
    article.push("k", b"new", 2)
    with pytest.raises(ackq.LeaseLost):
        delay.delete(message)
    (again,) = delay.take(timeout=5)
    assert again.body == b"new"
    with pytest.raises(ackq.LeaseLost):
        delay.delete(message)
    assert delay.delete(again) == 1


def test_a_duplicate_push_of_the_article_hands_no_leased_message_to_a_second_consumer(
    make_delay: MakeDelay, article: Article
) -> None:
    one, other = make_delay(visibility_timeout=0.4), make_delay()
    one.push("k", b"body")
    (message,) = one.take()
    assert not article.push("k", b"again", 1)  # refused, and yet it moved the ready time
    assert other.take() == []
    (again,) = other.take(timeout=5)
    assert again.receipt - 30_000_000 >= message.receipt
    assert (again.body, again.receive_count) == (b"body", 2)
    assert other.delete(again) == 1


def test_ackq_ends_the_leases_that_the_article_left_without_a_message(
    make_delay: MakeDelay, article: Article, target: Target, name: str
) -> None:
    delay = make_delay(visibility_timeout=0.01)
    delay.push("k", b"body")
    (message,) = delay.take()
    delay.extend(message, timeout=0.01)
    article.delete("k")
    leases, extended = f"{name}:leases", f"{name}:extended"
    assert target.control.zcard(leases) == 1
    wait_until(lambda: not delay.take() and not target.control.zcard(leases), "it to be swept")
    assert not target.control.exists(extended)


def test_a_body_without_a_ready_time_is_due_when_its_key_is_pushed(
    delay: DelayQueue, target: Target, article: Article
) -> None:
    target.control.hset(article.h, "k", b"left behind")
    with pytest.raises(ackq.errors.DuplicateMessage):
        delay.push("k", b"new", delay=100)
    (message,) = delay.take()
    assert message.body == b"left behind"


def test_a_ready_time_without_a_body_dies_and_wedges_nothing(
    delay: DelayQueue, target: Target, article: Article
) -> None:
    target.control.zadd(article.z, {"k": 1})
    delay.push("l", b"x", at=2)
    taken = [message for _ in range(2) for message in delay.take(1)]
    assert [message.key for message in taken] == ["l"]
    assert [(letter.id, letter.reason) for letter in delay.dead_letters()] == [
        ("k", "body missing")
    ]
    assert delay.redrive() == 0


@pytest.mark.parametrize("score", ["-inf", -1e300, -1, 0, 1e-9, 1_700_000_000.9999999])
def test_any_ready_time_in_the_past_is_due(
    delay: DelayQueue, target: Target, article: Article, score: float | str
) -> None:
    target.control.zadd(article.z, {"k": float(score)})
    target.control.hset(article.h, "k", b"x")
    (message,) = delay.take()
    assert message.ready_time == float(score)
    assert delay.delete(message) == 1


@pytest.mark.parametrize("score", ["inf", 1e300, 1e17])
def test_any_ready_time_in_the_future_is_waited_for(
    delay: DelayQueue, target: Target, article: Article, score: float | str
) -> None:
    target.control.zadd(article.z, {"k": float(score)})
    target.control.hset(article.h, "k", b"x")
    assert delay.take(timeout=0.05) == []
    assert delay.stats().delayed == 1


def test_a_message_of_others_wakes_a_consumer_within_a_second(
    delay: DelayQueue, article: Article
) -> None:
    delay.push("far", "x", delay=1000)
    assert delay.take(timeout=0.01) == []
    began = time.monotonic()
    article.push("k", b"x", 1)
    assert delay.take(timeout=20)[0].key == "k"
    assert time.monotonic() - began < 5


def test_partitions_are_those_of_murmur3() -> None:
    """By the reference implementation: MurmurHash3_x86_32, seed 0."""
    known = {
        b"": 0,
        b"a": 0x3C2569B2,
        b"abc": 0xB3DD93FA,
        b"hello": 0x248BFA47,
        b"hello, world": 0x149BBB7F,
        b"The quick brown fox jumps over the lazy dog": 0x2E4FF723,
    }
    for key, digest in known.items():
        assert [partition_of(key, size) for size in (1, 16, 1000)] == [
            digest % size for size in (1, 16, 1000)
        ]


def test_partitions_lie_where_the_article_puts_them(
    make_delay: MakeDelay, target: Target, name: str
) -> None:
    queue = make_delay(partitions=4)
    queue.push("by-hash", b"x", at=1)
    queue.push("chosen", b"y", at=1, partition=3)
    home = partition_of(b"by-hash", 4)
    assert Article(target.control, f"{name}:{home}").body(b"by-hash") == b"x"
    partition = Article(target.control, f"{name}:3")
    partition.push("theirs", b"z", 2)
    taken = {message.key: message for message in queue.take(9) + queue.take(9) + queue.take(9)}
    assert set(taken) == {"by-hash", "chosen", "theirs"}
    assert taken["theirs"].partition == taken["chosen"].partition == 3
    assert queue.delete(*taken.values()) == 3
