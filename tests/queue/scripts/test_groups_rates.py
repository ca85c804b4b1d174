"""groups/pop and ack of a queue whose groups have a rate."""

import pytest

from tests.queue.scripts.grouped import busy, message, parked, pop, record, turns
from tests.queue.scripts.space import NOW, SECOND, Popped, Space

EACH = 100_000  #: µs a message


def ids(popped: Popped) -> list[str]:
    return [key.decode() for key in popped.keys]


def limited(space: Space, in_flight: int = 1, burst: int = 1) -> Space:
    """Record a rate of 10 a second for each group, and stop the clock."""
    record(space, in_flight, rate=f"10/1000000/{burst}")
    return space.frozen()


def push(space: Space, *names: str) -> None:
    """Push messages of the group that the first letter of their ids names."""
    space.push(*(message(name, name[0]) for name in names))


def test_a_group_waits_for_its_rate_and_the_others_go_on(space: Space) -> None:
    now = limited(space, in_flight=9)
    push(space, "a1", "b1")
    assert ids(pop(now, 9)) == ["a1", "b1"]
    push(space, "a2", "a3")
    assert pop(now, 9).status == "empty"
    assert parked(space) == {"a": ["a2", "a3"]}
    assert turns(space) == ["a"]
    waiting = pop(now, 9)
    assert (waiting.status, waiting.wait) == ("empty", EACH)
    assert pop(space.frozen(NOW + EACH - 1), 9).status == "empty"
    assert ids(pop(space.frozen(NOW + EACH), 9)) == ["a2"]
    assert pop(space.frozen(NOW + EACH), 9).wait == EACH
    assert ids(pop(space.frozen(NOW + 2 * EACH), 9)) == ["a3"]
    assert busy(space) == {"a": 3, "b": 1}


@pytest.mark.parametrize("in_flight", [1, 9])
def test_a_group_that_was_idle_may_have_its_burst(space: Space, in_flight: int) -> None:
    now = limited(space, in_flight, burst=3)
    push(space, *(f"a{n}" for n in range(9)))
    taken = pop(now, 9)
    assert ids(taken) == ["a0", "a1", "a2"]
    assert pop(now, 9, settled=[(taken.deadline, *ids(taken))]).status == "empty"
    later = pop(space.frozen(NOW + 2 * EACH), 9)
    assert ids(later) == ["a3", "a4"]
    at = NOW + 60 * SECOND
    idle = pop(space.frozen(at), 9, settled=[(later.deadline, *ids(later))])
    assert ids(idle) == ["a5", "a6", "a7"]


def test_an_ack_wakes_no_group_before_its_rate_permits_it(space: Space) -> None:
    now = limited(space)
    push(space, "a1", "a2")
    taken = pop(now, 1)
    assert pop(now, 1, waited=0).status == "empty"
    now.call("ack", taken.deadline, 1, "a1")
    assert (space.ready, turns(space)) == ([], ["a"])
    waiting = pop(now, 1, waited=0)
    assert (waiting.status, waiting.wait) == ("empty", EACH)
    assert ids(pop(space.frozen(NOW + EACH), 1)) == ["a2"]


def test_an_ack_wakes_a_group_whose_rate_permits_it(space: Space) -> None:
    now = limited(space)
    push(space, "a1", "a2")
    taken = pop(now, 1)
    assert pop(now, 1, waited=0).status == "empty"
    space.frozen(NOW + EACH).call("ack", taken.deadline, 1, "a1")
    assert space.ready == [message("a2", "a")]


def test_a_group_that_an_audit_lets_go_on_waits_for_its_rate(space: Space) -> None:
    record(space, rate="10/1000000/1", on_dead="stop")
    now = space.frozen()
    push(space, "a1", "a2")
    now.reject((pop(now, 1).deadline, "a1"))
    assert pop(now, 1).messages == []
    [letter] = space.client.hkeys(space.key("GROUPS:LETTERS"))
    space.client.xdel(space.key("DEAD"), letter)
    assert now.call("groups/letters", 1, "a", letter) == [1, letter]
    assert space.client.zscore(space.key("GROUPS:TURNS"), "a") == NOW + EACH
    assert pop(now, 1).status == "empty"
    assert ids(pop(space.frozen(NOW + EACH), 1)) == ["a2"]


def test_a_redelivered_message_waits_for_the_rate_like_any_other(space: Space) -> None:
    now = limited(space, in_flight=9, burst=3)
    push(space, "a1", "a2", "a3", "a4")
    taken = pop(now, 9, timeout=1)
    later = space.frozen(taken.deadline)
    space.client.hset(space.key("COUNTERS"), "since", NOW)
    assert pop(later, 9).status == "again"
    assert pop(later, 9).status == "empty"
    due = sorted(at - NOW for at in space.delayed.values())
    assert due == [EACH, 2 * EACH, 3 * EACH]
    assert space.receives == dict.fromkeys([b"a1", b"a2", b"a3"], 1)
    redelivered = pop(space.frozen(NOW + EACH), 9)
    assert redelivered.counts == [2]
    counters = space.client.hgetall(space.key("COUNTERS"))
    assert (counters.get(b"returned"), counters.get(b"ended")) == (b"3", None)
    assert parked(space) == {"a": ["a4"]}
    assert busy(space) == {"a": 3}


def test_a_message_that_became_due_waits_for_the_rate(space: Space) -> None:
    now = limited(space, in_flight=9)
    push(space, "a1")
    pop(now, 1)
    space.delay("late", due=NOW - 1, body_=message("late", "a"))
    assert pop(now, 9).status == "empty"
    assert parked(space) == {"a": ["late"]}
    assert ids(pop(space.frozen(NOW + EACH), 9)) == ["late"]


def test_no_message_overtakes_a_parked_one_when_the_clock_is_set_back(space: Space) -> None:
    now = limited(space, in_flight=9)
    push(space, "a1", "a2")
    pop(now, 9)
    space.client.delete(space.key("GROUPS:RATES"))
    back = space.frozen(NOW - SECOND // 2)
    push(space, "a3")
    assert ids(pop(back, 1)) == ["a2"]
    assert parked(space) == {"a": ["a3"]}


def test_a_clock_that_is_set_back_stops_no_group_for_the_step(space: Space) -> None:
    now = limited(space, in_flight=9)
    push(space, "a1", "a2", "b1", "b2")
    assert ids(pop(now, 9)) == ["a1", "b1"]
    back = NOW - 3600 * SECOND
    assert pop(space.frozen(back), 9).wait == EACH
    assert ids(pop(space.frozen(back + EACH), 9)) == ["a2", "b2"]


def test_a_group_of_the_future_does_not_hold_up_those_behind_it(space: Space) -> None:
    now = limited(space, in_flight=9)
    push(space, "a1", "b1", "a2", "b2")
    assert ids(pop(now, 2)) == ["a1", "b1"]
    pop(now, 1)
    later = NOW + EACH
    space.client.zadd(space.key("GROUPS:RATES"), {"a": later + EACH})  # a was served meanwhile
    assert ids(pop(space.frozen(later), 9)) == ["b2"]
    assert ids(pop(space.frozen(later + EACH), 9)) == ["a2"]


def test_rates_of_groups_that_are_idle_are_forgotten(space: Space) -> None:
    limited(space)
    start = NOW
    for many in (1000, 1000, 5):
        space.push(*(message(f"{start}-{n}", f"g{n}-{start}") for n in range(many)))
        while pop(space.frozen(start), 1000).status == "ok":
            pass
        start += EACH
    assert space.client.zcard(space.key("GROUPS:RATES")) == 5


def test_messages_without_a_group_have_no_rate(space: Space) -> None:
    now = limited(space)
    space.push(*(message(f"m{n}") for n in range(5)))
    assert len(pop(now, 9).keys) == 5
    assert space.client.exists(space.key("GROUPS:RATES")) == 0


@pytest.mark.parametrize("script", ["groups/purge", "forget"])
def test_nothing_is_left_of_rates(space: Space, script: str) -> None:
    now = limited(space)
    push(space, "a1", "b1")
    pop(now, 9)
    space.call(script, 0)
    assert space.client.exists(space.key("GROUPS:RATES")) == 0


def test_a_very_high_rate_limits_as_exactly(space: Space) -> None:
    record(space, 1000, rate="1000000000/1000000/150")
    push(space, *(f"a{n}" for n in range(400)))
    assert len(pop(space.frozen(), 1000).keys) == 150
    while (waiting := pop(space.frozen(), 1000)).status == "again":
        pass
    assert waiting.wait == 1
    assert len(pop(space.frozen(NOW + 1), 1000).keys) == 150
    assert len(pop(space.frozen(NOW + SECOND), 1000).keys) == 100
