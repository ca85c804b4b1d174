"""The limit of a whole queue, in groups/pop and in whatever makes room."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.queue.scripts.grouped import busy, message, parked, pop, record
from tests.queue.scripts.space import NOW, PAST, SECOND, Popped, Space, body


def ids(popped: Popped) -> list[str]:
    return [key.decode() for key in popped.keys]


def limited(space: Space, most: int = 2) -> Space:
    """Record a limit without groups, and push five messages."""
    record(space, most=most, field="")
    space.push(*(body(f"m{n}") for n in range(5)))
    return space


def waits(space: Space) -> bool:
    """Return whether a consumer that waits for room would look again."""
    return bool(space.client.llen(space.key("GROUPS:ROOM")))


def test_a_queue_has_as_many_leases_as_the_record_says(space: Space) -> None:
    limited(space)
    taken = pop(space, 9)
    assert ids(taken) == ["m0", "m1"]
    refused = pop(space, 9)
    assert refused.status == "limited"
    assert 29 * SECOND < (refused.wait or 0) <= 30 * SECOND
    assert refused.waiters is None
    assert pop(space, 9, waited=0).waiters == 0
    assert ids(pop(space, 9, settled=[(taken.deadline, "m1")])) == ["m2"]
    assert space.client.hlen(space.key("GROUPS:FLIGHT")) == 0  # it has no groups


def test_a_member_without_a_name_is_no_group(space: Space) -> None:
    record(space, most=9, field="")
    space.push(*(b'{"id":"m%d","":"a"}' % n for n in range(2)), b'{"":"a"}')
    assert [len(pop(space, 1).keys) for _ in range(3)] == [1, 1, 1]


def test_groups_and_the_whole_queue_have_limits(space: Space) -> None:
    record(space, most=2)
    space.push(*(message(f"{group}{n}", group) for n in range(2) for group in "abc"))
    taken = pop(space, 1)
    assert ids(taken) == ["a0"]
    assert ids(pop(space, 9)) == ["b0"]
    assert pop(space, 9).status == "limited"
    assert ids(pop(space, 9, settled=[(taken.deadline, "a0")])) == ["c0"]
    assert busy(space) == {"b": 1, "c": 1}
    assert parked(space).keys() <= {"a", "b"}


def test_a_message_that_comes_back_has_its_room(space: Space) -> None:
    limited(space, most=3)
    assert ids(pop(space, 2)) == ["m0", "m1"]
    space.client.zadd(space.key("BACKUP"), {"m0": PAST})
    assert ids(pop(space, 9)) == ["m0", "m2"]
    assert pop(space, 9).status == "limited"
    space.client.zadd(space.key("BACKUP"), {"m1": PAST})
    assert ids(pop(space, 9)) == ["m1"]


def test_a_delayed_message_that_is_due_needs_room(space: Space) -> None:
    limited(space)
    taken = pop(space, 9)
    space.delay("late", due=PAST)
    assert pop(space, 9).status == "limited"
    assert ids(pop(space, 9, settled=[(taken.deadline, "m1")])) == ["late"]


def test_a_message_that_waits_for_a_retry_makes_room(space: Space) -> None:
    limited(space)
    taken = pop(space, 9)
    space.nack((taken.deadline, 60 * SECOND, "m0"))
    assert ids(pop(space, 9)) == ["m2"]


def test_a_flood_is_not_moved_aside_while_there_is_no_room(space: Space) -> None:
    record(space, most=1)
    space.push(*(message(f"a{n}", "a") for n in range(50)))
    pop(space, 1)
    left = len(space.ready)
    space.push(message("b0", "b"))
    assert pop(space, 1).status == "limited"
    assert len(space.ready) == left + 1


SETTLED: dict[str, Callable[[Popped], tuple[Any, ...]]] = {
    "ack": lambda taken: (taken.deadline, 1, "m0"),
    "nack": lambda taken: ("nack", 0, "", taken.deadline, 60 * SECOND, 1, "m0"),
    "ack_id": lambda taken: ("m0",),
    "cancel": lambda taken: (1, "", "m0"),
}


@pytest.mark.parametrize("script", SETTLED)
def test_whoever_makes_room_wakes_one_consumer_that_waits(space: Space, script: str) -> None:
    limited(space)
    taken = pop(space, 9)
    assert pop(space, 1, waited=0).status == "limited"
    assert not waits(space)
    space.call(script, *SETTLED[script](taken))
    assert space.client.lrange(space.key("GROUPS:ROOM"), 0, -1) == [b"1"]
    assert 0 < space.client.pttl(space.key("GROUPS:ROOM")) <= 10_000


def test_a_consumer_that_looks_again_wakes_the_next_one_while_there_is_room(space: Space) -> None:
    limited(space, most=3)
    taken = pop(space, 9)
    assert pop(space, 1, waited=0).status == "limited"
    space.call("ack", taken.deadline, 2, "m0", "m1")
    assert space.client.lpop(space.key("GROUPS:ROOM")) == b"1"
    assert ids(pop(space, 1)) == ["m3"]
    assert space.client.lpop(space.key("GROUPS:ROOM")) == b"1"
    assert ids(pop(space, 1)) == ["m4"]
    assert not waits(space)


def test_nobody_is_woken_while_nobody_waits(space: Space) -> None:
    limited(space)
    taken = pop(space, 9)
    space.call("ack", taken.deadline, 1, "m0")
    assert not waits(space)


def test_an_element_is_taken_away_once_there_is_no_room(space: Space) -> None:
    limited(space)
    taken = pop(space, 9)
    pop(space, 1, waited=0)
    space.call("ack", taken.deadline, 1, "m0")
    assert waits(space)
    pop(space, 1)
    assert pop(space, 1, waited=0).status == "limited"
    assert not waits(space)


def test_a_consumer_at_the_limit_looks_again_when_a_lease_ends(space: Space) -> None:
    limited(space)
    now = space.frozen()
    taken = pop(now, 9, timeout=5 * SECOND)
    assert pop(now, 9).wait == 5 * SECOND
    ended = space.frozen(NOW + 5 * SECOND)
    assert [*ids(pop(ended, 1, max_receives=1)), *ids(pop(ended, 1))] == ["m2", "m3"]
    assert len(space.dead) == len(taken.keys) == 2


def test_no_element_is_left_behind(space: Space) -> None:
    limited(space)
    taken = pop(space, 9)
    pop(space, 1, waited=0)
    space.call("ack", taken.deadline, 1, "m0")
    space.call("forget")
    assert not waits(space)
