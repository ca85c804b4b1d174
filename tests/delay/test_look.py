"""A look at a delay queue takes nothing; a purge deletes everything, on every server."""

from __future__ import annotations

from typing import Any

import pytest

from ackq.delay import DelayEntry
from ackq.errors import ConfigurationError, KeyTypeError
from tests.delay.conftest import MakeDelay
from tests.servers import Target
from tests.waiting import wait_until

MIB = 1024 * 1024


def snapshot(target: Target, name: str) -> dict[bytes, Any]:
    """Return every key of the topic as it is stored."""
    return {key: target.control.dump(key) for key in target.control.scan_iter(f"{name}:*")}


def seen(queue: Any, state: str) -> list[str]:
    return [each.id for each in queue.peek(10, state)]


@pytest.mark.parametrize("partitions", [None, 1])
def test_each_state_shows_its_own_soonest_first_and_nothing_is_taken(
    make_delay: MakeDelay, target: Target, name: str, partitions: int | None
) -> None:
    queue = make_delay(partitions)
    queue.push_many([DelayEntry("tomorrow", b"4", 86_400), DelayEntry("soon", b"3", 60)])
    queue.push("held", b"\xff")
    (held,) = queue.take()
    queue.push_many([DelayEntry("second", b"2", at=2), DelayEntry("first", b"1", at=1.5)])
    before = snapshot(target, name)
    assert [(each.id, each.body, each.at, each.receive_count) for each in queue.peek()] == [
        ("first", b"1", 1.5, 0),
        ("second", b"2", 2, 0),
    ]
    (flying,) = queue.peek(10, "in_flight")
    assert (flying.id, flying.body, flying.receive_count) == ("held", b"\xff", 1)
    assert flying.at == pytest.approx(held.lease_expires_at)
    assert seen(queue, "delayed") == ["soon", "tomorrow"]
    assert queue.peek(1, "delayed")[0].at > held.ready_time + 50
    assert queue.peek(0) == []
    assert snapshot(target, name) == before


def test_what_is_leased_is_not_delayed_wherever_its_lease_ends(delay: Any) -> None:
    delay.push_many([DelayEntry(f"held-{n}", b"x") for n in range(40)])
    for n in range(40):
        assert delay.take(1, visibility_timeout=50 + n)
        delay.push(f"later-{n}", b"x", delay=50.5 + n)
    assert seen(delay, "delayed") == [f"later-{n}" for n in range(10)]
    found, place = delay.peek_page(40, "delayed")
    rest, end = delay.peek_page(40, "delayed", place=place)
    assert [each.id for each in (*found, *rest)] == [f"later-{n}" for n in range(40)]
    assert end is None


def test_a_lease_that_ended_is_ready_and_has_its_count(delay: Any) -> None:
    delay.push("a", b"x")
    delay.take(1, visibility_timeout=0.001)
    wait_until(lambda: delay.stats().ready, "the lease to end")
    assert [(each.id, each.receive_count) for each in delay.peek()] == [("a", 1)]
    assert seen(delay, "in_flight") == []
    (message,) = delay.take()
    delay.nack(message, delay=60)
    assert [(each.id, each.receive_count) for each in delay.peek(1, "delayed")] == [("a", 2)]
    assert seen(delay, "in_flight") == []


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pages_go_through_all_partitions_and_all_of_each(make_delay: MakeDelay, size: int) -> None:
    queue = make_delay(3)
    keys = {f"k{n}" for n in range(60)}
    queue.push_many(DelayEntry(key, b"x", at=1) for key in keys)
    place: Any = (0, 0)
    walked: list[str] = []
    while place is not None:
        found, place = queue.peek_page(size, place=place)
        assert len(found) <= size
        walked += [each.id for each in found]
    assert len(walked) == 60
    assert set(walked) == keys
    assert [each.id for each in queue.peek(60)] == walked


def test_a_peek_brings_more_than_a_page_and_a_page_is_bounded(make_delay: MakeDelay) -> None:
    queue = make_delay(max_body_bytes=4 * MIB)
    queue.push_many(DelayEntry(f"{n:04}", b"x", at=1) for n in range(1005))
    assert [each.id for each in queue.peek(2000)] == [f"{n:04}" for n in range(1005)]
    queue.purge()
    queue.push_many(DelayEntry(f"{n}", b"x" * 3 * MIB, at=1) for n in range(5))
    found, place = queue.peek_page()
    assert [each.id for each in found] == ["0", "1", "2"]
    assert [each.id for each in queue.peek_page(place=place)[0]] == ["3", "4"]
    assert len(queue.peek(5)) == 5


def test_what_others_put_off_after_its_lease_is_delayed(
    delay: Any, target: Target, name: str
) -> None:
    delay.push("a", b"x")
    delay.take(1, visibility_timeout=0.001)
    wait_until(lambda: delay.stats().ready, "the lease to end")
    target.control.zadd(f"{name}:z", {"a": 2**33 - 1})
    assert (seen(delay, "ready"), seen(delay, "delayed")) == ([], ["a"])


def test_what_others_left_half_stored_is_shown_as_far_as_it_is_there(
    delay: Any, target: Target, name: str
) -> None:
    target.control.zadd(f"{name}:z", {"no body": 1})
    target.control.hset(f"{name}:h", "no time", "x")
    target.control.zadd(f"{name}:leases", {"no message": 2**52})
    assert [(each.id, each.body) for each in delay.peek()] == [("no body", b"")]
    assert seen(delay, "in_flight") == []


def test_a_bad_look_is_refused(make_delay: MakeDelay, target: Target, name: str) -> None:
    queue = make_delay(2)
    for state in ("dead", "", None):
        with pytest.raises(ConfigurationError, match="state"):
            queue.peek(1, state)
    for n in (-1, 1.5, "1"):
        with pytest.raises(ConfigurationError, match="peek"):
            queue.peek(n)
    for n in (0, 1001):
        with pytest.raises(ConfigurationError, match="n is"):
            queue.peek_page(n)
    for place in ((2, 0), (-1, 0), (0, -1), (0, 2**53)):
        with pytest.raises(ConfigurationError, match="place"):
            queue.peek_page(place=place)
    target.control.set(f"{name}:1:z", "a string")
    with pytest.raises(KeyTypeError, match=f"{name}:1:z"):
        queue.peek()


@pytest.mark.parametrize("partitions", [None, 3])
def test_a_purge_deletes_all_and_keeps_the_dead_unless_told(
    make_delay: MakeDelay, target: Target, name: str, partitions: int | None
) -> None:
    queue = make_delay(partitions)

    def fill() -> None:
        queue.push_many(DelayEntry(f"k{n}", b"x", at=1) for n in range(20))
        queue.reject(*queue.take(2))
        queue.nack(*queue.take(3), delay=60)
        queue.extend(*queue.take(4))

    fill()
    assert queue.purge() == 18
    now = queue.stats()
    assert (now.ready, now.in_flight, now.delayed, now.dead) == (0, 0, 0, 2)
    kept = {key for key in target.control.scan_iter(f"{name}:*") if not key.endswith(b":dead")}
    assert kept <= {f"{name}:{part}".encode() for part in ("members", "group", "owners")}
    fill()
    assert queue.purge(dead=True) == 22
    assert queue.stats().dead == queue.purge(dead=True) == 0
    queue.push("k1", b"new")
    (message,) = queue.take(timeout=5)
    assert (message.body, message.receive_count) == (b"new", 1)


def test_a_purge_that_meets_another_type_deletes_nothing(
    make_delay: MakeDelay, target: Target, name: str
) -> None:
    queue = make_delay(2)
    queue.push_many([DelayEntry("a", b"x", partition=0), DelayEntry("b", b"x", partition=1)])
    target.control.set(f"{name}:1:receives", "a string")
    before = snapshot(target, name)
    with pytest.raises(KeyTypeError, match=f"{name}:1:receives"):
        queue.purge(dead=True)
    assert snapshot(target, name) == before
