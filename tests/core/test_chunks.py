"""Calls that are sent in parts: where they are cut, and how an error reports the first part."""

from typing import Any

import pytest

import ackq
from tests.conftest import MakeQueue
from tests.large import CALLS, MAX_BODY_BYTES, large_bodies
from tests.servers import Target
from tests.waiting import wait_until


@pytest.mark.parametrize("schedule", [{}, {"delay": 60}])
def test_a_call_stores_4_mib_at_most(
    make_queue: Any, target: Target, schedule: dict[str, int]
) -> None:
    queue = make_queue(max_body_bytes=MAX_BODY_BYTES)
    queue.push(b"the script is loaded now", **schedule)
    before = target.calls("lpush", "evalsha")
    bodies = large_bodies()
    assert len(queue.push_many(bodies, **schedule)) == len(bodies)
    assert target.calls("lpush", "evalsha") - before == len(CALLS)
    stats = queue.stats()
    assert stats.ready + stats.delayed == len(bodies) + 1


@pytest.mark.parametrize("verb", ["ack", "extend"])
def test_what_is_refused_in_any_part_is_named(make_queue: MakeQueue, verb: str) -> None:
    queue, other = make_queue(), make_queue()
    queue.push_many({"id": str(number)} for number in range(1502))
    first, last = queue.pop_many(2, visibility_timeout=0.001)
    wait_until(lambda: queue.stats().expired == 2, "two leases to end")
    assert len(other.pop_many(2)) == 2
    held = queue.pop_many(1000) + queue.pop_many(1000)
    assert len(held) == 1500
    with pytest.raises(ackq.LeaseLost) as refused:
        getattr(queue, verb)(first, *held, last)
    assert refused.value.messages == (first, last)
    assert refused.value.settled == 1500
    assert [message for message in held if message.lease_lost] == []
    assert queue.stats().in_flight == (2 if verb == "ack" else 1502)


def test_more_than_one_call_settles_by_id_is_settled(queue: Any) -> None:
    ids = queue.push_many({"id": str(number)} for number in range(1001))
    assert len(queue.pop_many(1000) + queue.pop_many(1000)) == 1001
    assert queue.ack_id(*ids) == 1001
    assert queue.stats().in_flight == 0


def test_a_long_peek_shows_each_message_once_and_in_order(queue: Any) -> None:
    ids = queue.push_many({"id": str(number)} for number in range(1500))
    assert [message.id for message in queue.peek(1400, skip=50)] == ids[50:1450]


def test_more_dead_letters_than_one_call_takes(queue: Any) -> None:
    ids = queue.push_many({"id": str(number)} for number in range(2002))
    while batch := queue.pop_many(1000):
        queue.reject(*batch)
    letters = queue.dead_letters(3000)
    assert [letter.id for letter in letters] == ids
    entries = [letter.entry for letter in letters]
    assert queue.drop_dead_letters(*entries[:1001]) == 1001
    assert queue.redrive(entries=entries[1001:]) == 1001
    assert [message.id for message in queue.peek(2000)] == ids[1001:]


def test_large_dead_letters_that_are_named_are_all_redriven(make_queue: MakeQueue) -> None:
    queue = make_queue(max_body_bytes=MAX_BODY_BYTES)
    bodies = large_bodies()
    queue.push_many(bodies)
    while batch := queue.pop_many(100):
        queue.reject(*batch)
    entries = [letter.entry for letter in queue.dead_letters()]
    assert queue.redrive(entries=entries) == len(bodies)  # 8 MiB a call


def test_long_dead_letters_are_read_one_by_one_and_short_ones_by_the_hundred(
    make_queue: MakeQueue, target: Target
) -> None:
    queue = make_queue(max_body_bytes=MAX_BODY_BYTES)
    bodies = [b"x" * 600_000] * 4
    queue.push_many(bodies + [b"short"] * 300)
    while batch := queue.pop_many(1000):
        queue.reject(*batch)
    before = target.calls("xrange")
    assert [letter.body for letter in queue.dead_letters(4)] == bodies
    assert target.calls("xrange") - before == 4
    before = target.calls("xrange")
    assert len(queue.dead_letters(300)) == 300
    assert target.calls("xrange") - before < 20


def test_a_call_schedules_500_messages_at_most(queue: Any, target: Target) -> None:
    queue.push(b"the script is loaded now", delay=60)
    before = target.calls("evalsha")
    queue.push_many([b"x"] * 501, delay=60)
    assert target.calls("evalsha") - before == 2
    assert queue.stats().delayed == 502
