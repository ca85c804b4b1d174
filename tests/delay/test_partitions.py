"""Partitions: where messages go, who owns them, and what a fenced consumer can no longer do."""

from typing import Any

import pytest

import ackq
from ackq.delay import DelayEntry
from ackq.delay.messages import partition_of
from tests.delay.conftest import MakeDelay
from tests.facade import AsSync
from tests.servers import Target
from tests.waiting import wait_until

P = 16


def home(key: str) -> int:
    return partition_of(key.encode(), P)


def shared_out(*queues: Any) -> bool:
    owned = sorted(number for queue in queues for number in queue.assigned)
    sizes = [len(queue.assigned) for queue in queues]
    return owned == list(range(P)) and max(sizes) - min(sizes) <= 1


def fence_off(target: Target, name: str, queue: Any) -> None:
    """Let others believe that the consumer is silent, as if it had been frozen for long."""
    session = queue._members.session.name
    target.control.zadd(f"{name}:members", {session: 1})


def notice(queue: Any) -> None:
    """Let the consumer look for silent ones now."""
    if isinstance(queue, AsSync):
        queue._portal.call(queue._wrapped._members.heartbeat)
    else:
        queue._members.heartbeat()


def test_a_message_goes_to_the_partition_of_its_key_or_to_the_one_chosen(
    make_delay: MakeDelay, target: Target, name: str
) -> None:
    queue = make_delay(P)
    queue.push("k", b"x", delay=100)
    elsewhere = (home("chosen") + 1) % P
    queue.push("chosen", b"x", delay=100, partition=elsewhere)
    assert target.control.hget(f"{name}:{home('k')}:h", "k") == b"x"
    assert target.control.hget(f"{name}:{elsewhere}:h", "chosen") == b"x"
    with pytest.raises(ackq.ConfigurationError, match="partition"):
        queue.push("k", b"x", partition=P)
    assert queue.stats().delayed == 2
    assert queue.reschedule("k", delay=200)
    assert queue.cancel("k", "chosen") == 1
    assert queue.cancel("chosen", partition=elsewhere) == 1


def test_partitions_are_shared_out_and_each_message_goes_to_their_owner(
    make_delay: MakeDelay,
) -> None:
    queues = [make_delay(P) for _ in range(3)]
    for queue in queues:
        queue.join()
    queues[0].push_many(DelayEntry(f"k{n}", b"x") for n in range(300))
    taken = [(queue, message) for queue in queues for message in queue.take(300)]
    assert len(taken) == 300
    assert shared_out(*queues)
    assert all(message.partition in queue.assigned for queue, message in taken)


def test_a_consumer_that_others_joined_takes_no_longer_from_what_moved(
    make_delay: MakeDelay,
) -> None:
    one, other = make_delay(P), make_delay(P)
    one.join()
    other.join()
    producer = make_delay(P)
    for partition in range(P):
        producer.push(f"k{partition}", b"x", partition=partition)
    assert {message.partition for message in one.take(P)} == set(one.assigned)
    assert shared_out(one, other)


def test_a_consumer_in_good_standing_may_finish_what_moved_away(make_delay: MakeDelay) -> None:
    one, other = make_delay(P), make_delay(P)
    for partition in range(P):
        one.push(f"k{partition}", b"x", partition=partition)
    held = one.take(P)
    other.join()
    assert other.take(P) == []
    assert one.delete(*held) == P


@pytest.mark.parametrize("verb", ["delete", "nack", "release", "reject", "extend"])
def test_a_consumer_that_was_fenced_off_can_settle_nothing_that_it_took_before(
    make_delay: MakeDelay, target: Target, name: str, verb: str
) -> None:
    one, other = make_delay(P, session_timeout=60), make_delay(P, session_timeout=60)
    one.push("k", b"x")
    (message,) = one.take()
    other.join()
    fence_off(target, name, one)
    notice(other)
    with pytest.raises(ackq.LeaseLost, match="fenced off"):
        getattr(one, verb)(message)
    assert message.lease_lost
    one.take()  # joins again, under another name
    with pytest.raises(ackq.LeaseLost):
        getattr(one, verb)(message)
    assert one.stats().in_flight == 1


def test_a_consumer_that_was_fenced_off_takes_nothing_until_it_joined_again(
    make_delay: MakeDelay, target: Target, name: str
) -> None:
    one, other = make_delay(P, session_timeout=60), make_delay(P, session_timeout=60)
    one.join()
    other.join()
    before = one._members.session.name
    fence_off(target, name, one)
    target.control.zrem(f"{name}:members", before)
    target.control.hincrby(f"{name}:group", "generation", 1)
    one.push_many(DelayEntry(f"k{n}", b"x") for n in range(64))
    taken = one.take(64)
    assert one._members.session.name != before
    assert {message.session for message in taken} == {one._members.session.name}
    other.take(64)
    assert shared_out(one, other)


def test_a_consumer_without_a_partition_waits_and_gets_one_when_another_leaves(
    make_delay: MakeDelay,
) -> None:
    one, other = make_delay(1, session_timeout=2), make_delay(1, session_timeout=2)
    one.join()
    other.join()
    other.push("k", b"x", delay=0.2)
    assert other.take(timeout=0.3) == []
    one.close()
    (message,) = other.take(timeout=10)
    assert other.delete(message) == 1


def test_dead_letters_of_all_partitions_are_read_and_redriven(make_delay: MakeDelay) -> None:
    queue = make_delay(P)
    queue.push_many(DelayEntry(f"k{n}", b"x") for n in range(40))
    queue.reject(*queue.take(40), reason="no")
    assert len(queue.dead_letters(1000)) == queue.stats().dead == 40
    assert [len(queue.dead_letters(n)) for n in range(12)] == [*range(12)]
    assert queue.redrive(10) == 10
    assert queue.redrive() == 30
    assert queue.stats().ready == 40


def test_dead_letters_of_a_partition_are_paged_and_dropped(make_delay: MakeDelay) -> None:
    queue = make_delay(P)
    queue.push_many(DelayEntry(f"k{n}", b"x") for n in range(40))
    queue.reject(*queue.take(40), reason="no")
    seen: set[str] = set()
    for partition in range(P):
        letters = queue.dead_letters(1000, partition=partition)
        assert {home(letter.id) for letter in letters} <= {partition}
        if letters:
            last = letters[-1].entry
            rest = queue.dead_letters(1000, after=letters[0].entry, partition=partition)
            assert rest == letters[1:]
            assert queue.drop_dead_letters(last, last, "1-1", partition=partition) == 1
            assert queue.dead_letters(1000, partition=partition) == letters[:-1]
        seen |= {letter.id for letter in letters}
    assert len(seen) == 40
    for call in (
        lambda: queue.dead_letters(after="1-1"),
        lambda: queue.drop_dead_letters("1-1"),
        lambda: queue.dead_letters(partition=P),
        lambda: queue.drop_dead_letters("x", partition=0),
    ):
        with pytest.raises(ackq.ConfigurationError):
            call()


def test_a_waiting_consumer_is_woken_by_an_arrival_in_any_of_its_partitions(
    make_delay: MakeDelay,
) -> None:
    producer, consumer = make_delay(P), make_delay(P)
    consumer.join()
    for partition in (0, 7, 15):
        producer.push(f"k{partition}", b"x", delay=0.15, partition=partition)
        (message,) = consumer.take(timeout=5)
        assert message.partition == partition
        consumer.delete(message)


def test_a_plain_topics_message_is_refused_by_a_partitioned_one(make_delay: MakeDelay) -> None:
    plain, parted = make_delay(), make_delay(P)
    plain.push("k", b"x")
    (message,) = plain.take()
    with pytest.raises(ackq.ConfigurationError):
        parted.delete(message)


def test_close_leaves_so_that_others_take_over_at_once(make_delay: MakeDelay) -> None:
    one, other = make_delay(P, session_timeout=600), make_delay(P, session_timeout=600)
    one.join()
    other.join()
    one.close()
    other.take()
    wait_until(lambda: shared_out(other), "the other to own everything")
