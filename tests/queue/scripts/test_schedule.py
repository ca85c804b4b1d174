"""schedule: store now, deliver later."""

from collections.abc import Sequence

import pytest

from tests.queue.scripts.space import FUTURE, NOW, PAST, SECOND, Space, Value, body


def test_a_message_with_a_delay_is_due_that_long_from_now(space: Space) -> None:
    assert space.frozen().call("schedule", "delay", 5 * SECOND, "a", body("a")) == 1
    assert space.dump() == {"CONTEXT": {b"a": body("a")}, "DELAYED": {b"a": NOW + 5 * SECOND}}


def test_a_message_with_an_instant_is_due_then(space: Space) -> None:
    assert space.call("schedule", "at", PAST, "a", body("a")) == 1
    assert space.delayed == {b"a": PAST}
    assert space.pop().messages == [(b"a", body("a"))]


def test_a_delay_ends_before_scores_lose_their_exactness(space: Space) -> None:
    space.call("schedule", "delay", 2**53 - 1, "a", body("a"))
    assert space.delayed == {b"a": 2**53 - 1}


def test_a_thousand_messages_are_stored_in_one_call(space: Space) -> None:
    pairs = [part for number in range(1000) for part in (str(number), body(str(number)))]
    assert space.call("schedule", "at", FUTURE, *pairs) == 1000
    assert space.bodies == {b"%d" % number: body(str(number)) for number in range(1000)}
    assert space.delayed == {b"%d" % number: FUTURE + number for number in range(1000)}


def test_a_key_that_is_taken_is_replaced_and_both_bodies_survive(space: Space) -> None:
    space.lease("held", b"held")
    space.delay("later", b"later")
    space.client.hset(space.key("CONTEXT"), "orphan", "orphan")
    call: list[Value] = ["held", b"1", "later", b"2", "orphan", b"3", "new", b"4", "new", b"5"]
    assert space.frozen().call("schedule", "at", FUTURE, *call) == 5
    first = FUTURE + 1  # behind the one that is there
    due = [first, first + 1, first + 2, first + 4]
    ids = (b"held", b"later", b"orphan", b"new")
    derived = [
        b"\0%s\0%d:%d:%04d" % (id, at, NOW, number)
        for number, (id, at) in enumerate(zip(ids, due, strict=True), 1)
    ]
    assert space.bodies == {
        b"held": b"held",
        b"later": b"later",
        b"orphan": b"orphan",
        b"new": b"4",
        **dict(zip(derived, (b"1", b"2", b"3", b"5"), strict=True)),
    }
    given = dict(zip(derived, due, strict=True))
    assert space.delayed == {b"later": FUTURE, b"new": first + 3, **given}
    assert space.leases == {b"held": FUTURE}


@pytest.mark.parametrize("key", [b"", b"\0", b"\0004000000000000000:0001"])
def test_no_key_and_a_key_that_looks_derived_are_derived(space: Space, key: bytes) -> None:
    space.frozen().call("schedule", "at", FUTURE, key, b"body")
    assert space.bodies == {b"\0%d:%d:0001" % (FUTURE, NOW): b"body"}


def test_a_derived_key_never_collides_with_one_that_exists(space: Space) -> None:
    for _ in range(3):
        space.frozen().call("schedule", "delay", SECOND, "", b"body")
    assert space.bodies.keys() == {b"\0%d:%d:%04d" % (NOW + SECOND, NOW, n) for n in (1, 2, 3)}


def in_order(space: Space) -> list[str]:
    """Return the delayed messages in the order in which they become ready."""
    return [key.decode() for key in space.client.zrange(space.key("DELAYED"), 0, -1)]


def ids(count: int, head: str) -> list[str]:
    """Return ids that Redis would sort the other way round."""
    return [f"{head}{count - number:04d}" for number in range(count)]


def schedule(space: Space, *keys: str, at: int = FUTURE) -> list[str]:
    pairs = [part for key in keys for part in (key, body(key))]
    space.call("schedule", "at", at, *pairs)
    return list(keys)


def test_messages_for_one_time_keep_the_order_of_their_pushes(space: Space) -> None:
    pushed: list[str] = []
    for count, head in ((1, "z"), (1, "y"), (500, "x"), (1, "w"), (300, "v"), (2, "u")):
        pushed += schedule(space, *ids(count, head))
    assert in_order(space) == pushed
    assert min(space.delayed.values()) == FUTURE, "none is early"
    assert max(space.delayed.values()) == FUTURE + len(pushed) - 1


def test_a_row_longer_than_the_first_look_is_seen_whole(space: Space) -> None:
    pushed: list[str] = []
    for head in "zyxwvutsr":
        pushed += schedule(space, *ids(1000, 100 * head))
    looked = space.weigh("schedule", "at", FUTURE, "a", body("a"))
    assert in_order(space) == [*pushed, "a"]
    assert looked.total < 200, "only the last of the row is read"


@pytest.mark.parametrize("end", ["cancel", "run_now"])
@pytest.mark.parametrize(
    "left",
    [[1, 2], [2], [99], range(50, 3000), range(0, 3000, 40), range(60, 200, 70)],
    ids=["all but the first", "the last", "one far behind", "most", "some", "few"],
)
def test_a_message_comes_behind_those_that_are_left_for_its_time(
    space: Space, left: Sequence[int], end: str
) -> None:
    keys = [key for head in "zyx" for key in ids(1000, head)][: left[-1] + 1]
    for first in range(0, len(keys), 1000):
        schedule(space, *keys[first : first + 1000])
    kept = [keys[number] for number in left]
    gone = [part for key in keys if key not in kept for part in ("", key)]
    head = (0,) if end == "cancel" else ()
    for first in range(0, len(gone), 200):
        space.call(end, *head, *gone[first : first + 200])
    schedule(space, "a")
    assert [key for key in in_order(space) if key in (*kept, "a")] == [*kept, "a"]


def test_other_messages_hold_up_a_message_for_milliseconds_at_most(space: Space) -> None:
    for number in range(1000):
        space.delay(f"other{number}", due=FUTURE + 90 * number)
    schedule(space, "a")
    assert FUTURE < space.delayed[b"a"] <= FUTURE + 20_000


def test_messages_with_one_delay_keep_their_order(space: Space) -> None:
    keys = ids(500, "x")
    pairs = [part for key in keys for part in (key, body(key))]
    space.frozen().call("schedule", "delay", SECOND, *pairs)
    assert in_order(space) == keys
    assert min(space.delayed.values()) == NOW + SECOND, "none is early"


def test_messages_for_other_times_are_not_held_up(space: Space) -> None:
    schedule(space, *ids(100, "z"))
    schedule(space, "before", at=FUTURE - 1000)
    schedule(space, "after", at=FUTURE + 1000)
    assert space.delayed[b"before"] == FUTURE - 1000
    assert space.delayed[b"after"] == FUTURE + 1000
    schedule(space, "last")
    assert space.delayed[b"last"] == FUTURE + 100


def test_messages_that_an_earlier_release_stored_come_first(space: Space) -> None:
    for number in range(200):
        space.delay(f"old{number}", due=FUTURE)
    schedule(space, "new")
    assert in_order(space)[-1] == "new"


@pytest.mark.parametrize(("taken", "canceled"), [(1, ()), (900, ()), (900, (901,))])
def test_a_message_for_a_past_time_waits_behind_the_rest_for_that_time(
    space: Space, taken: int, canceled: Sequence[int]
) -> None:
    keys = schedule(space, *ids(1000, "z"), at=PAST)
    for number in canceled:
        space.call("cancel", 0, "", keys[number])
    while len(space.delayed) > 1000 - taken - len(canceled):
        space.pop(min(taken, 100))
    keys += schedule(space, "a", at=PAST)
    gone = [keys[number] for number in canceled]
    assert in_order(space) == [key for key in keys[taken:] if key not in gone]


def test_messages_for_different_past_times_keep_their_times(space: Space) -> None:
    schedule(space, "second", at=PAST + 500_000)
    schedule(space, "first", at=PAST)
    assert space.delayed == {b"first": PAST, b"second": PAST + 500_000}
