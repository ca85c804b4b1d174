"""Consuming: in order, each id at its own place, sharers without doubles, nothing skipped."""

from types import SimpleNamespace
from typing import Any

import pytest

from ackq import ConfigurationError, KeyTypeError, LeaseLost
from ackq.errors import NotSubscribed, PlaceLost
from ackq.topic import Topic
from ackq.topic.settle import _raise_if_refused
from tests.topic.conftest import Keys, MakeTopic, bodies, indexes


def publish(topic: Topic, count: int) -> None:
    topic.publish_many([b"%d" % index for index in range(1, count + 1)])


def test_each_consumer_reads_everything_in_order_at_its_own_place(topic: Topic) -> None:
    publish(topic, 5)
    for consumer in ("a", "b"):
        assert topic.subscribe(consumer)
        first, second = topic.consume(consumer, 2), topic.consume(consumer, 10)
        assert bodies(first) + bodies(second) == [b"1", b"2", b"3", b"4", b"5"]
        assert indexes(first) + indexes(second) == [1, 2, 3, 4, 5]
        assert topic.commit(first, second) == 2
        assert topic.position(consumer) == 5
        assert not topic.consume(consumer)


def test_the_place_moves_at_the_commit(topic: Topic, keys: Keys) -> None:
    publish(topic, 3)
    topic.subscribe("c")
    batch = topic.consume("c", 2)
    assert keys.place("c") == 0
    assert topic.lag("c") == 3
    assert topic.commit(batch) == 1
    assert keys.place("c") == 2
    assert topic.lag("c") == 1
    assert topic.commit(batch) == 0


def test_a_commit_may_travel_with_the_next_read(topic: Topic, keys: Keys) -> None:
    publish(topic, 3)
    topic.subscribe("c")
    batch = topic.consume("c")
    for expected in (2, 3):
        batch = topic.consume("c", commit=batch)
        assert indexes(batch) == [expected]
        assert keys.place("c") == expected - 1
    assert not topic.consume("c", commit=[batch])
    assert keys.place("c") == 3
    assert not keys.leases("c")
    assert not keys.ranges("c")


def test_a_commit_that_travels_may_be_another_consumers(topic: Topic, keys: Keys) -> None:
    publish(topic, 3)
    for consumer in ("one", "other"):
        topic.subscribe(consumer)
    held = [topic.consume("other"), topic.consume("one"), topic.consume("other")]
    assert indexes(topic.consume("one", commit=held)) == [2]
    assert [keys.place("one"), keys.place("other")] == [1, 2]
    assert not any(batch.lease_lost for batch in held)


def test_commits_out_of_order_never_move_the_place_past_what_is_not_committed(
    topic: Topic, keys: Keys
) -> None:
    publish(topic, 6)
    topic.subscribe("c")
    one, two, three = (topic.consume("c", 2) for _ in range(3))
    assert topic.commit(three) == 1
    assert keys.place("c") == 0
    assert topic.commit(one) == 1
    assert keys.place("c") == 2
    assert topic.commit(three) == 0
    assert topic.commit([one, two], iter([three])) == 1
    assert keys.place("c") == 6
    assert not keys.ranges("c")


def test_a_range_whose_lease_ended_comes_back_before_anything_new(topic: Topic, keys: Keys) -> None:
    publish(topic, 9)
    topic.subscribe("c")
    held = [topic.consume("c", 3), topic.consume("c", 3)]
    keys.end_leases("c")
    again = topic.consume("c", 2)
    assert indexes(again) == [1, 2]
    assert [indexes(topic.consume("c", 5)) for _ in range(4)] == [[3], [4, 5, 6], [7, 8, 9], []]
    with pytest.raises(LeaseLost) as raised:
        topic.commit(*held)
    assert list(raised.value.messages) == held
    assert held[0].lease_lost
    assert keys.place("c") == 0
    assert topic.commit(again) == 1
    assert keys.place("c") == 2


@pytest.mark.parametrize("verb", ["commit", "extend"])
def test_what_is_refused_of_any_consumer_is_named(topic: Topic, keys: Keys, verb: str) -> None:
    publish(topic, 1)
    for consumer in ("one", "other"):
        topic.subscribe(consumer)
    held = [topic.consume("one"), topic.consume("other")]
    keys.end_leases("one")
    assert topic.consume("one")
    with pytest.raises(LeaseLost) as refused:
        getattr(topic, verb)(*held)
    assert (refused.value.messages, refused.value.settled) == ((held[0],), 1)


def test_a_late_commit_is_taken_while_nobody_else_has_the_range(topic: Topic, keys: Keys) -> None:
    publish(topic, 2)
    topic.subscribe("c")
    batch = topic.consume("c", 2)
    keys.end_leases("c")
    assert topic.commit(batch) == 1
    assert keys.place("c") == 2


def test_a_refused_commit_that_travels_is_marked_and_not_raised(topic: Topic, keys: Keys) -> None:
    publish(topic, 2)
    topic.subscribe("c")
    late = topic.consume("c")
    keys.end_leases("c")
    holder = topic.consume("c")
    assert indexes(topic.consume("c", commit=[late])) == [2]
    assert late.lease_lost
    assert topic.commit(holder) == 1


def test_release_gives_a_range_to_the_next_reader(topic: Topic, keys: Keys) -> None:
    publish(topic, 2)
    topic.subscribe("c")
    batch = topic.consume("c")
    assert topic.release([batch]) == 1
    assert indexes(topic.consume("c")) == [1]
    with pytest.raises(LeaseLost):
        topic.release(batch)


def test_extend_keeps_the_receipt(topic: Any, keys: Keys) -> None:
    publish(topic, 1)
    topic.subscribe("c")
    batch = topic.consume("c", visibility_timeout=1)
    before = batch.lease_expires_at
    assert topic.extend([batch], timeout=100) == 1
    assert batch.lease_expires_at > before + 90
    assert list(keys.leases("c").values()) == [pytest.approx(batch.lease_expires_at * 1e6)]
    assert topic.commit(batch) == 1
    assert topic.extend(batch) == 0


def test_at_most_once_moves_the_place_at_the_read(make_topic: MakeTopic, keys: Keys) -> None:
    topic = make_topic(delivery="at_most_once")
    publish(topic, 5)
    topic.subscribe("c")
    batch = topic.consume("c", 2)
    assert keys.place("c") == 2
    assert topic.commit(batch) == 0
    assert bodies(topic.consume("c", 9)) == [b"3", b"4", b"5"]
    assert not topic.consume("c")
    assert not keys.leases("c")
    assert not keys.ranges("c")


def test_both_modes_under_one_id_share_without_doubles(make_topic: MakeTopic, keys: Keys) -> None:
    leasing, plain = make_topic(), make_topic(delivery="at_most_once")
    publish(leasing, 6)
    leasing.subscribe("c")
    batch = leasing.consume("c", 2)
    assert indexes(plain.consume("c", 2)) == [3, 4]
    assert keys.place("c") == 0
    assert leasing.commit(batch) == 1
    assert keys.place("c") == 4
    held = leasing.consume("c", 2)
    keys.end_leases("c")
    assert indexes(plain.consume("c", 1)) == [5]
    assert keys.place("c") == 5
    assert indexes(plain.consume("c", 1)) == [6]
    assert keys.place("c") == 6
    assert not held.lease_lost
    assert not keys.ranges("c")


def test_unsubscribe_and_subscribe_replays_every_live_message(topic: Topic, keys: Keys) -> None:
    publish(topic, 4)
    topic.subscribe("c")
    assert not topic.subscribe("c")
    held = topic.consume("c", 3)
    topic.commit(topic.consume("c"))
    assert topic.unsubscribe("c")
    assert not topic.unsubscribe("c")
    with pytest.raises(NotSubscribed):
        topic.consume("c")
    with pytest.raises(NotSubscribed):
        topic.lag("c")
    with pytest.raises(NotSubscribed):
        topic.seek("c", "end")
    assert topic.position("c") is None
    keys.expire(1)
    assert topic.subscribe("c")
    with pytest.raises(LeaseLost):
        topic.commit(held)
    assert bodies(topic.consume("c", 10)) == [b"2", b"3", b"4"]


def test_seek_moves_the_place_and_voids_what_is_held(topic: Any, keys: Keys) -> None:
    publish(topic, 5)
    topic.subscribe("c", 3)
    held = topic.consume("c")
    assert indexes(held) == [3]
    topic.seek("c", 2)
    with pytest.raises(LeaseLost):
        topic.extend(held)
    assert indexes(topic.consume("c", 9)) == [2, 3, 4, 5]
    topic.seek("c", "end")
    assert topic.lag("c") == 0
    topic.seek("c", 6)
    assert not topic.consume("c")
    topic.seek("c", "oldest")
    assert indexes(topic.consume("c")) == [1]
    for bad in (0, 7, -1, True, "newest"):
        with pytest.raises(ConfigurationError):
            topic.seek("c", bad)


def test_a_consumer_that_starts_at_the_end_reads_what_comes(topic: Topic) -> None:
    publish(topic, 3)
    topic.subscribe("c", "end")
    assert not topic.consume("c")
    topic.publish(b"new")
    assert bodies(topic.consume("c")) == [b"new"]


def test_a_call_reads_1_mib_and_one_message_over(topic: Topic) -> None:
    topic.publish_many([b"x" * 400_000] * 10)
    topic.subscribe("c")
    batch = topic.consume("c", 10)
    assert len(batch) == 3
    assert indexes(topic.consume("c", 1)) == [4]


def test_settling_takes_batches_of_this_topic(make_topic: MakeTopic, name: str) -> None:
    topic, other = make_topic(), make_topic(name=name + ":other")
    publish(topic, 1)
    topic.subscribe("c")
    batch = topic.consume("c")
    with pytest.raises(ConfigurationError):
        other.commit(batch)
    with pytest.raises(ConfigurationError):
        topic.commit(batch[0])  # type: ignore[arg-type]
    assert topic.commit(topic.consume("c")) == 0


@pytest.mark.parametrize("consumer", ["", "a\nb", "x" * 201, "\ud800", 5])
def test_a_consumer_id_that_cannot_be_a_key_is_refused(plain: Any, consumer: Any) -> None:
    with pytest.raises(ConfigurationError):
        plain().subscribe(consumer)


@pytest.mark.parametrize("consumer", ["a b", "ünï", "{x}", "a:b", "*", "leases"])
def test_other_ids_are_fine(topic: Topic, consumer: str) -> None:
    topic.publish(b"x")
    topic.subscribe(consumer)
    assert topic.commit(topic.consume(consumer)) == 1
    assert topic.unsubscribe(consumer)


def test_a_place_of_another_type_is_named_and_nothing_is_changed(topic: Topic, keys: Keys) -> None:
    publish(topic, 1)
    topic.subscribe("c")
    batch = topic.consume("c")
    keys.client.delete(keys.key("leases:c"))
    keys.client.set(keys.key("leases:c"), "text")
    with pytest.raises(KeyTypeError, match="leases:c"):
        topic.consume("c")
    with pytest.raises(KeyTypeError, match="leases:c"):
        topic.commit(batch)
    keys.client.delete(keys.key("leases:c"), keys.key("ranges:c"))
    keys.client.set(keys.key("consumers:c"), "1.5")
    with pytest.raises(KeyTypeError):
        topic.consume("c")
    with pytest.raises(KeyTypeError):
        topic.lag("c")


def test_a_message_of_another_type_is_an_error_and_not_skipped(topic: Topic, keys: Keys) -> None:
    publish(topic, 2)
    keys.expire(1)
    keys.client.rpush(keys.key("messages:1"), "a list")
    keys.client.set(keys.key("consumers:c"), 0)
    with pytest.raises(KeyTypeError):
        topic.consume("c")
    assert keys.place("c") == 0


def test_a_place_beyond_the_topic_is_an_error(topic: Topic, keys: Keys) -> None:
    publish(topic, 2)
    keys.client.set(keys.key("consumers:c"), 50)
    with pytest.raises(PlaceLost) as raised:
        topic.consume("c")
    assert (raised.value.first, raised.value.last) == (51, 2)
    topic.seek("c", "oldest")
    assert indexes(topic.consume("c")) == [1]


@pytest.mark.parametrize(("refused", "more"), [(5, ""), (6, " and 1 more")])
def test_up_to_five_refused_ranges_are_named(refused: int, more: str) -> None:
    spec: Any = SimpleNamespace(name="t")
    batches: Any = [SimpleNamespace(first=n, last=n) for n in range(1, refused + 1)]
    with pytest.raises(LeaseLost, match=f"refused for 1 to 1, .+, 5 to 5{more}: the lease ended"):
        _raise_if_refused(spec, "commit", batches, 0)
