"""oldest: since when the oldest ready message has been ready, as far as that is stored."""

import pytest

from tests.queue.scripts.space import NOW, PAST, Space, body

MEMBERS = ("specversion", "made")
TIMED = b'{"id":"a","made":1}'


def oldest(space: Space) -> list[int | bytes]:
    """Return since when a message is ready, whether a list has any, and the body of its next."""
    found: list[int | bytes]
    now, *found = space.frozen().call("oldest", space.end, *MEMBERS)
    assert now == NOW
    return found


def test_of_redelivered_and_due_messages_the_earliest_counts(space: Space) -> None:
    space.lease("running", deadline=NOW + 1)
    space.delay("later", due=NOW + 1)
    space.hold(b"claimed", until=NOW + 1)
    space.hold(b"for later", until=PAST, suffix="STAGED:w:1:delayed")
    space.hold(b"moved", until=PAST, suffix="CLAIM:g:7")
    space.client.hset(space.key("HELDROWS"), space.key("CLAIM:g:7"), 0)
    assert oldest(space) == [0, 0, b""]
    space.delay("due", due=NOW)
    assert oldest(space) == [NOW, 0, b""]
    space.lease("ended", deadline=NOW - 5)
    assert oldest(space) == [NOW - 5, 0, b""]
    space.hold(b"ended", until=NOW - 7, suffix="CLAIM:g:8")
    assert oldest(space) == [NOW - 7, 0, b""]


def test_a_list_that_came_back_without_a_time_is_ready_since_an_unknown_time(space: Space) -> None:
    space.hold(b"committed", until=0, suffix="STAGED:w:1:0")
    assert oldest(space) == [0, 1, b""]
    space.delay("due", due=PAST)
    assert oldest(space) == [PAST, 0, b""]


@pytest.mark.parametrize("end", ["right", "left"])
def test_of_the_lists_the_message_that_is_taken_next_is_returned(space: Space, end: str) -> None:
    if end == "left":
        space = space.popped_from_the_left()
    space.push(TIMED, b'{"made":2}')
    assert oldest(space) == [0, 1, TIMED]
    space.hand_over(b'{"made":3}', b'{"made":4}')
    before = space.dump()
    assert oldest(space) == [0, 1, b'{"made":3}']
    assert space.dump() == before


def test_of_messages_that_were_moved_aside_the_first_one_of_any_group_counts(space: Space) -> None:
    def look() -> list[int | bytes]:
        found: list[int | bytes]
        _, *found = space.frozen().call("oldest", "right", *MEMBERS, lists=["GROUPS:PARKED"])
        return found

    space.push(TIMED)
    assert look() == [0, 1, TIMED]
    members = [f"001a{NOW - 5}short", f"001a{NOW - 4}short", f"002bb{NOW - 9}", f"001z{NOW - 1}z"]
    space.client.zadd(space.key("GROUPS:PARKED"), dict.fromkeys(members, 0))
    assert look() == [NOW - 9, 0, b""]
    space.delay("due", due=NOW - 10)
    assert look() == [NOW - 10, 0, b""]
    space.client.zadd(space.key("GROUPS:PARKED"), {f"001b{NOW - 11}".encode() + TIMED: 0})
    assert look() == [NOW - 11, 1, TIMED]
    for size, count in ((600_000, 2), (0, 200)):  # long ones, or many: it is not known
        space.client.delete(space.key("GROUPS:PARKED"))
        members = [f"003{at:03}{NOW - 1}{'x' * size}" for at in range(count)]
        space.client.zadd(space.key("GROUPS:PARKED"), dict.fromkeys(members[:-1], 0))
        assert look() == [NOW - 10, 0, b""]
        space.client.zadd(space.key("GROUPS:PARKED"), dict.fromkeys(members[-1:], 0))
        assert look() == [NOW - 10, 1, b""]


def test_a_body_without_a_time_or_too_long_is_not_returned(space: Space) -> None:
    filler = 65_536 - len(b'{"made":1,"x":""}')
    for body_, returned in (
        (body("plain"), False),
        (b'{"remade":1}', False),
        (b'{"specversion":1}', True),
        (b'{"made":1,"x":"%s"}' % (b"x" * filler), True),
        (b'{"made":1,"x":"%s"}' % (b"x" * (filler + 1)), False),
    ):
        space.client.delete(space.key(""))
        space.push(body_)
        assert oldest(space) == [0, 1, body_ if returned else b""]
