"""What holds for every way to settle: only the holder of a lease may, and only once."""

from collections.abc import Callable

import pytest

from tests.queue.scripts.space import FUTURE, PAST, Group, Space, body


def gives_back(way: str, delay: int = 0) -> Callable[..., list[int]]:
    def settle(space: Space, *groups: Group) -> list[int]:
        return space.nack(*((receipt, delay, *keys) for receipt, *keys in groups), way=way)

    return settle


#: Each settles groups of a receipt and its lease keys, and returns how many it settled, and then
#: the positions of those that it refused: negative if nobody has the message.
SETTLES: dict[str, Callable[..., list[int]]] = {
    "ack": Space.ack,
    "nack": gives_back("nack"),
    "to the back": gives_back("nack", -1),
    "release": gives_back("release"),
    "reject": Space.reject,
    "extend": lambda space, *groups: space.extend(*groups)[1:],
}
each = pytest.mark.parametrize("way", SETTLES)


@each
@pytest.mark.parametrize("off", [-1, 1])
def test_a_receipt_of_another_lease_is_refused(space: Space, way: str, off: int) -> None:
    space.push(body("a"))
    stale = space.pop(timeout=1)
    held = space.pop()
    before = space.dump()
    for receipt in (stale.deadline, held.deadline + off):
        assert SETTLES[way](space, (receipt, "a")) == [0, 1]
    assert space.dump() == before


@each
def test_the_due_time_of_a_delayed_message_is_no_receipt(space: Space, way: str) -> None:
    space.delay("a", due=FUTURE)
    before = space.dump()
    # It may have been given back by the same call, whose reply was lost.
    waits = way in ("nack", "to the back", "release")
    assert SETTLES[way](space, (FUTURE, "a")) == [0, -1 if waits else 1]
    assert space.dump() == before


@each
def test_a_settled_message_is_gone_and_nobody_elses(space: Space, way: str) -> None:
    space.lease("a")
    space.ack((FUTURE, "a"))
    assert SETTLES[way](space, (FUTURE, "a")) == [0, -1]
    assert space.dump() == {}


@pytest.mark.parametrize("way", [way for way in SETTLES if way != "extend"])
def test_what_is_sent_again_changes_nothing(space: Space, way: str) -> None:
    space.lease("a")
    assert SETTLES[way](space, (FUTURE, "a")) == [1]
    before = space.dump()
    assert SETTLES[way](space, (FUTURE, "a")) == [0, -1]
    assert space.dump() == before


@each
def test_a_message_that_is_named_twice_is_settled_once(space: Space, way: str) -> None:
    space.lease("a")
    space.lease("b")
    assert SETTLES[way](space.frozen(), (FUTURE, "a", "a", "b"), (FUTURE, "a")) == [2]
    there = [*space.leases, *space.delayed, *space.ready, *space.dead]
    assert len(there) == (0 if way == "ack" else 2)


@each
def test_the_receipt_of_an_extended_lease_stays_good(space: Space, way: str) -> None:
    space.lease("a", extended=f"7:{FUTURE}")
    assert SETTLES[way](space, (7, "a")) == [1]
    assert bool(space.extended) == (way == "extend")


@each
def test_a_lease_that_ended_can_be_settled_until_the_message_is_taken(
    space: Space, way: str
) -> None:
    space.lease("a", deadline=PAST)
    assert SETTLES[way](space, (PAST, "a")) == [1]


@each
def test_positions_count_through_all_groups(space: Space, way: str) -> None:
    for key in "abcd":
        space.lease(key)
    groups = ((7, "a", "gone"), (FUTURE, "b"), (8, "c"), (FUTURE, "d"))
    assert SETTLES[way](space, *groups) == [2, 1, -2, 4]
    assert [space.leases[key] for key in (b"a", b"c")] == [FUTURE, FUTURE]
    assert way == "extend" or len(space.leases) == 2
