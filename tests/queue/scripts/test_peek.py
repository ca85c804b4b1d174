"""peek: look without taking."""

import pytest

from tests.queue.scripts.space import CLAIM, FUTURE, MIB, NOW, PAST, Space, body

Row = tuple[bytes, bytes, bytes, int, bytes]


def peek(space: Space, state: str = "ready", offset: int = 0, wanted: int = 1000) -> list[Row]:
    reply = space.call("peek", state, offset, wanted, 2, lists=("CLAIM:b:1", "STAGED:w:1:0"))
    return [tuple(reply[at : at + 5]) for at in range(0, len(reply), 5)]


def stocked(space: Space) -> Space:
    """A queue with two messages in every place, at the instant NOW."""
    space.push(body("listed-1"), body("listed-2"))
    space.hand_over(body("handed-1"), body("handed-2"))
    space.lease("expired-1", deadline=PAST)
    space.lease("expired-2", deadline=NOW, count=4)
    space.lease("running-1", deadline=NOW + 1)
    space.lease("running-2", deadline=FUTURE, count=2)
    space.delay("due-1", due=PAST)
    space.delay("due-2", due=NOW, count=3)
    space.delay("delayed-1", due=NOW + 1)
    space.delay("delayed-2", due=FUTURE, count=1)
    space.hold(body("returned"), until=NOW)
    space.hold(body("claimed"), until=NOW + 1, suffix="CLAIM:b:1")
    space.hold(body("committed"), until=0, suffix="STAGED:w:1:0")
    return space.frozen()


READY = [
    (b"backup", b"expired-1", body("expired-1"), 1, b"%d" % PAST),
    (b"backup", b"expired-2", body("expired-2"), 4, b"%d" % NOW),
    (b"delayed", b"due-1", body("due-1"), 0, b"%d" % PAST),
    (b"delayed", b"due-2", body("due-2"), 3, b"%d" % NOW),
    (b"list", b"", body("returned"), 0, b"0"),
    (b"list", b"", body("handed-1"), 0, b"0"),
    (b"list", b"", body("handed-2"), 0, b"0"),
    (b"list", b"", body("listed-1"), 0, b"0"),
    (b"list", b"", body("listed-2"), 0, b"0"),
    (b"list", b"", body("committed"), 0, b"0"),
]


def give_back(full: Space) -> None:
    """Return a list to the queue, as clients do when pop reports one."""
    full.client.rename(full.key("STAGED:w:1:0"), full.key("STAGED"))
    assert full.call("held/give_back", "front", "right") == [1, 0]
    full.client.rename(full.key("STAGED"), full.key(CLAIM))
    full.client.zadd(full.key("HELD"), {full.key(CLAIM): 0})
    full.client.zrem(full.key("HELD"), full.key("STAGED:w:1:0"))
    assert full.call("held/give_back", "back", "right") == [1, 0]


def test_a_list_that_is_not_held_or_is_none_is_not_shown(space: Space) -> None:
    space.client.lpush(space.key(CLAIM), body("kept"))
    space.client.set(space.key("CLAIM:b:1"), "of another type")
    space.client.zadd(space.key("HELD"), {space.key("CLAIM:b:1"): FUTURE})
    assert peek(space) == peek(space, "in_flight") == []


def test_ready_is_what_a_pop_would_take_in_its_order(space: Space) -> None:
    full = stocked(space)
    seen = peek(full)
    assert seen == READY
    give_back(full)
    assert full.pop(100).bodies == [row[2] for row in seen]


def test_in_flight_messages_are_shown_the_soonest_deadline_first(space: Space) -> None:
    full = stocked(space)
    assert peek(full, "in_flight") == [
        (b"backup", b"running-1", body("running-1"), 1, b"%d" % (NOW + 1)),
        (b"backup", b"running-2", body("running-2"), 2, b"%d" % FUTURE),
        (b"claim", b"", body("claimed"), 1, b"%d" % (NOW + 1)),
    ]


def test_claims_are_shown_by_the_end_of_their_leases(space: Space) -> None:
    space.hold(body("b"), until=FUTURE)
    space.hold(body("a"), until=FUTURE - 1, suffix="CLAIM:b:1")
    assert [row[2] for row in peek(space, "in_flight")] == [body("a"), body("b")]


def test_delayed_is_what_is_not_due_the_soonest_first(space: Space) -> None:
    full = stocked(space)
    assert peek(full, "delayed") == [
        (b"delayed", b"delayed-1", body("delayed-1"), 0, b"%d" % (NOW + 1)),
        (b"delayed", b"delayed-2", body("delayed-2"), 1, b"%d" % FUTURE),
    ]


@pytest.mark.parametrize("state", ["ready", "in_flight", "delayed"])
def test_a_peek_changes_nothing(space: Space, state: str) -> None:
    full = stocked(space)
    before = full.dump()
    peek(full, state)
    assert full.dump() == before


@pytest.mark.parametrize("wanted", [1, 3, 5, 10])
def test_pages_add_up_wherever_they_are_cut(space: Space, wanted: int) -> None:
    full = stocked(space)
    pages = [peek(full, "ready", offset, wanted) for offset in range(0, 12, wanted)]
    assert [row for page in pages for row in page] == READY
    assert len(pages[0]) == wanted


def test_beyond_the_end_is_nothing(space: Space) -> None:
    full = stocked(space)
    assert peek(full, "ready", 10) == []
    assert peek(full, "ready", 2**53 - 1) == []
    assert peek(full, "in_flight", 3) == []


def test_a_body_that_is_missing_is_shown_empty(space: Space) -> None:
    space.client.zadd(space.key("BACKUP"), {"gone": PAST})
    assert peek(space) == [(b"backup", b"gone", b"", 1, b"%d" % PAST)]


def test_one_call_shows_a_mebibyte(space: Space) -> None:
    space.lease("0", b"x" * (5 * MIB // 8), deadline=PAST)
    space.delay("1", b"x" * (5 * MIB // 8), due=PAST)
    space.push(b"2")
    assert [row[1] for row in peek(space)] == [b"0", b"1"]
    assert [row[2] for row in peek(space, "ready", 2)] == [b"2"]


def test_a_list_is_read_one_two_four_at_a_time(space: Space) -> None:
    space.push(b"short", *[b"x" * (3 * MIB // 8)] * 20)
    weighed = space.weigh("peek", "ready", 0, 21, 0)
    assert [len(raw) for raw in weighed.reply[2::5]] == [5] + [3 * MIB // 8] * 3
    assert weighed.total < 5 * MIB // 4


@pytest.mark.parametrize("state", ["ready", "in_flight", "delayed"])
def test_pages_of_a_set_join_on_to_one_another(space: Space, state: str) -> None:
    when = PAST if state == "ready" else FUTURE
    for number in range(30):
        space.lease(f"b{number:02}", deadline=when)
        space.delay(f"d{number:02}", due=when)
    keys = [row[1] for row in peek(space, state, 0)]
    assert len(keys) == (60 if state == "ready" else 30)
    assert [row[1] for at in range(0, 61, 7) for row in peek(space, state, at, 7)] == keys
