"""nack: give messages back; a release does not count."""

import pytest

from tests.queue.scripts.space import FUTURE, MIB, NOW, PAST, SECOND, Space, body, listed_field


def test_a_nack_moves_the_lease_to_the_delayed_and_keeps_key_and_body(space: Space) -> None:
    space.lease("a", b"\xff not its id", deadline=FUTURE, extended=f"7:{FUTURE}")
    assert space.frozen().nack((FUTURE, 5 * SECOND, "a")) == [1]
    assert space.dump() == {
        "CONTEXT": {b"a": b"\xff not its id"},
        "DELAYED": {b"a": NOW + 5 * SECOND},
        "RECEIVES": {b"a": b"1"},
    }


def test_a_nacked_message_is_received_once_more_when_it_is_due(space: Space) -> None:
    space.push(body("a"))
    popped = space.frozen(NOW).pop()
    space.frozen(NOW).nack((popped.deadline, 5, "a"))
    assert space.frozen(NOW + 4).pop().status == "empty"
    assert space.frozen(NOW + 5).pop().counts == [2]


def test_a_nack_without_delay_makes_the_message_ready_at_once(space: Space) -> None:
    space.lease("a")
    space.frozen().nack((FUTURE, 0, "a"))
    assert space.delayed == {b"a": NOW}
    assert space.frozen().pop().keys == [b"a"]


def test_what_was_given_back_together_is_ready_at_once_and_in_the_order_given(
    space: Space,
) -> None:
    for key in ("o9", "o10", "o100", "o2"):
        space.lease(key)
    assert space.frozen().nack((FUTURE, 0, "o9", "o10"), (FUTURE, 0, "o100", "o2")) == [4]
    assert space.frozen().pop(4).keys == [b"o9", b"o10", b"o100", b"o2"]


def test_what_was_given_back_together_is_due_in_the_order_given_and_never_early(
    space: Space,
) -> None:
    for key in ("o9", "o10", "o100"):
        space.lease(key)
    space.frozen().nack((FUTURE, SECOND, "o9"), (FUTURE, SECOND, "o10", "o100"))
    assert min(space.delayed.values()) == NOW + SECOND
    assert space.frozen(NOW + 2 * SECOND).pop(3).keys == [b"o9", b"o10", b"o100"]


def test_one_that_is_ready_at_once_waits_for_none_that_is_given_a_delay(space: Space) -> None:
    for key in ("a", "b", "c"):
        space.lease(key)
    space.frozen().nack((FUTURE, SECOND, "a"), (FUTURE, 0, "b"), (FUTURE, SECOND, "c"))
    assert space.frozen().pop(3).keys == [b"b"]
    assert space.delayed == {b"a": NOW + SECOND, b"c": NOW + SECOND + 2}


@pytest.mark.parametrize(
    ("way", "delay", "counts"),
    [("nack", 0, [2, 2]), ("release", 0, [1, 1]), ("nack", SECOND, [2, 2])],
)
def test_a_message_given_back_wakes_a_consumer_and_keeps_its_place_count_and_delay(
    space: Space, way: str, delay: int, counts: list[int]
) -> None:
    space.client.set(space.key("WAITERS:LOOKS"), f"{NOW}:1.000", px=10_000)
    space.push(body("o10"), body("o9"))
    taken = space.frozen(NOW).pop(2)
    assert space.frozen(NOW).nack((taken.deadline, delay, "o10", "o9"), way=way)[0] == 2
    assert space.ready == [body("o9")]
    if delay:
        assert space.frozen(NOW + 1).pop(2).status == "empty"
        assert space.delayed == {b"o10": NOW + delay, b"o9": NOW + delay + 1}
    again = space.frozen(NOW + delay + 1).pop(2)
    assert (again.keys, again.counts) == ([b"o10", b"o9"], counts)
    assert "NOTES" not in space.dump()


def test_the_soonest_of_several_messages_wakes_a_consumer(space: Space) -> None:
    space.client.set(space.key("WAITERS:LOOKS"), f"{NOW}:1.000", px=10_000)
    for id in "abc":
        space.lease(id)
    space.frozen().nack((FUTURE, SECOND, "a"), (FUTURE, 0, "b"), (FUTURE, 60 * SECOND, "c"))
    assert (space.ready, [*space.delayed]) == ([body("b")], [b"a", b"c"])


@pytest.mark.parametrize(
    "why", ["none waits", "a backlog", "handed over", "later", "a release", "no id"]
)
def test_a_message_given_back_that_need_not_or_cannot_wake_a_consumer_is_delayed(
    space: Space, why: str
) -> None:
    if why != "none waits":
        space.client.set(space.key("WAITERS:LOOKS"), f"{NOW}:1.000", px=10_000)
    space.push(b"no json" if why == "no id" else body("a"))
    taken = space.frozen(NOW).pop()
    if why in ("a backlog", "handed over"):
        space.client.lpush(space.key("" if why == "a backlog" else "HANDOFF"), body("b"))
    before = space.dump()
    delay = {"later": 2 * SECOND, "a release": SECOND}.get(why, 0)
    way = "release" if why == "a release" else "nack"
    space.frozen(NOW).nack((taken.deadline, delay, *taken.keys), way=way)
    assert list(space.delayed) == taken.keys
    assert [space.dump().get(list) for list in ("", "HANDOFF")] == [
        before.get(list) for list in ("", "HANDOFF")
    ]


def test_a_delay_ends_before_scores_lose_their_exactness(space: Space) -> None:
    space.lease("a")
    space.nack((FUTURE, 2**53 - 1, "a"))
    assert space.delayed == {b"a": 2**53 - 1}


def test_an_extension_does_not_come_back_with_the_message(space: Space) -> None:
    space.lease("a", deadline=NOW + 5, extended=f"7:{NOW + 5}")
    space.frozen().nack((7, 0, "a"))
    space.frozen().pop(timeout=5)  # gives the very deadline that the note spoke of
    assert space.ack((7, "a")) == [0, 1]


def test_positions_and_delays_are_those_of_the_groups(space: Space) -> None:
    for key in ("a", "b", "c"):
        space.lease(key)
    assert space.frozen().nack((FUTURE, 5, "a"), (7, 6, "b"), (FUTURE, 8, "gone", "c")) == [
        2,
        2,
        -3,
    ]
    assert space.delayed == {b"a": NOW + 5, b"c": NOW + 8 + 1}
    assert space.leases == {b"b": FUTURE}


def test_a_release_does_not_count(space: Space) -> None:
    space.push(body("a"))
    for _ in range(3):
        popped = space.frozen().pop(max_receives=1)
        assert popped.counts == [1]
        assert space.frozen().nack((popped.deadline, 0, "a"), way="release", max_receives=1) == [1]
        assert space.receives == {}


def test_a_release_takes_only_its_own_receive_back(space: Space) -> None:
    space.lease("a", count=3)
    space.nack((FUTURE, 0, "a"), way="release")
    assert space.receives == {b"a": 2}
    assert space.pop().counts == [3]


def test_a_nack_at_the_maximum_is_death(space: Space) -> None:
    space.lease("a", count=2)
    space.lease("b", count=3, extended=f"7:{FUTURE}")
    assert space.nack((FUTURE, 0, "a", "b"), max_receives=3) == [2, [2]]
    assert space.dead == [(b"b", body("b"), "max receives", 3)]
    assert space.bodies == {b"a": body("a")}
    assert space.receives == {b"a": 2}
    assert (space.leases, space.extended, list(space.delayed)) == ({}, {}, [b"a"])


def test_a_first_receive_can_be_the_last(space: Space) -> None:
    space.lease("a")
    assert space.nack((FUTURE, -1, "a"), max_receives=1) == [1, [1]]
    assert space.dead == [(b"a", body("a"), "max receives", 1)]
    assert space.dump().keys() == {"DEAD"}


def test_a_release_at_the_maximum_is_no_death(space: Space) -> None:
    space.lease("a", count=3)
    assert space.nack((FUTURE, 0, "a"), way="release", max_receives=3) == [1]
    assert space.dead == []
    assert space.pop(max_receives=3).counts == [3]


def test_a_delay_of_minus_one_pushes_to_the_back_of_the_list(space: Space) -> None:
    space.push(body("first"), body("second"))
    space.lease("a", extended=f"7:{FUTURE}")
    assert space.frozen().nack((FUTURE, -1, "a")) == [1]
    assert space.dump() == {
        "": [body("a"), body("second"), body("first")],
        "NOTES": {listed_field("a", body("a")): b"%d 1 0" % NOW},
    }
    assert space.pop(3).counts == [1, 1, 2]


def test_no_count_follows_a_derived_key_to_the_list(space: Space) -> None:
    space.lease(b"\x001:0001", b"no id", count=3)
    assert space.nack((FUTURE, -1, b"\x001:0001")) == [1]
    assert space.dump() == {"": [b"no id"]}


def test_a_derived_key_keeps_its_count_among_the_delayed(space: Space) -> None:
    space.lease(b"\x001:0001", b"no id", count=3)
    space.nack((FUTURE, 0, b"\x001:0001"))
    popped = space.pop()
    assert (popped.keys, popped.counts) == ([b"\x001:0001"], [4])


@pytest.mark.parametrize("delay", [0, -1])
def test_a_lease_without_a_body_goes_to_the_dead_letters(space: Space, delay: int) -> None:
    space.client.zadd(space.key("BACKUP"), {"gone": FUTURE})
    assert space.nack((FUTURE, delay, "gone")) == [1, [1]]
    assert space.dead == [(b"gone", b"", "body missing", 1)]
    assert space.dump().keys() == {"DEAD"}


def test_a_dead_letter_says_when_it_died(space: Space) -> None:
    space.lease("a")
    space.frozen().nack((FUTURE, 0, "a"), max_receives=1)
    [(_, letter)] = space.dump()["DEAD"]
    assert letter[b"time"] == b"%d" % NOW


def test_a_count_that_is_no_number_cannot_lose_the_message(space: Space) -> None:
    space.lease("a", deadline=PAST)
    space.client.hset(space.key("RECEIVES"), "a", "many")
    assert space.nack((PAST, 0, "a"), max_receives=3) == [1]
    assert space.pop().keys == [b"a"]


LONG = b"x" * (3 * MIB // 8)
NEXT = (0, 4)  #: how a reply ends that leaves the fourth key to the next call


def test_a_body_that_stays_is_not_read(space: Space) -> None:
    for key in ("a", "b", "c"):
        space.lease(key, LONG, count=2)
    group = (FUTURE, 0, 3, "a", "b", "c")
    for way in ("release", "nack"):
        weighed = space.weigh("nack", way, 9, "", *group)
        assert (weighed.reply, weighed.total < 1000) == ([3], True)
        space.client.rename(space.key("DELAYED"), space.key("BACKUP"))
        space.client.zadd(space.key("BACKUP"), dict.fromkeys("abc", FUTURE))


@pytest.mark.parametrize(("delay", "max_receives"), [(-1, 0), (0, 1)])
def test_one_call_moves_a_mebibyte_of_bodies_and_says_where_it_stopped(
    space: Space, delay: int, max_receives: int
) -> None:
    for key in ("a", "b", "c", "d", "e"):
        space.lease(key, LONG)
    group = (FUTURE, delay, 5, *"abcde")
    weighed = space.weigh("nack", "nack", max_receives, "", *group)
    assert weighed.reply == [3, *NEXT, *([[1, 2, 3]] if max_receives else [])]
    assert weighed.total < 3 * len(LONG) + 1000
    assert space.leases.keys() == {b"d", b"e"}
    # The same call once more, as after a lost reply, goes on with the rest.
    assert space.weigh("nack", "nack", max_receives, "", *group).reply[0] == 2
    assert len(space.ready) + len(space.dead) == 5
    assert space.dump().keys() <= {"", "DEAD", "NOTES"}


def test_what_is_refused_behind_the_end_of_a_call_is_for_the_next_call(space: Space) -> None:
    for key in "acdf":
        space.lease(key, LONG)
    space.lease("b", deadline=7)
    space.lease("e", deadline=7)
    assert space.nack((FUTURE, -1, *"abcdfe")) == [3, 2, 0, 5]
    assert space.nack((FUTURE, -1, "f", "e")) == [1, 2]


def test_one_call_gives_a_hundred_back_and_the_next_keeps_their_order(space: Space) -> None:
    keys = [f"o{number}" for number in range(250)]
    for key in keys:
        space.lease(key)
    assert space.frozen(NOW).nack((FUTURE, 0, *keys[:110])) == [100, 0, 101]
    assert max(space.delayed.values()) == NOW
    assert space.frozen(NOW + 100).nack((FUTURE, 0, *keys[100:110])) == [10]
    assert space.frozen(NOW + 200).nack((FUTURE, 0, *keys[110:])) == [100, 0, 101]
    assert space.frozen(NOW + 300).nack((FUTURE, 0, *keys[210:])) == [40]
    due = sorted(space.delayed.items(), key=lambda each: each[1])
    assert [key.decode() for key, _ in due] == keys


def test_notes_that_are_not_read_cost_nothing(space: Space) -> None:
    keys = [f"{number}" for number in range(10)]
    for key in keys:
        space.lease(key, count=2)
        space.note(key, body(key), b"1:7:" + b"x" * 50_000)
    assert space.nack((FUTURE, 0, *keys)) == [10]
