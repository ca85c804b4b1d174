"""purge: delete everything."""

from tests.queue.scripts.space import FUTURE, PAST, Space, body


def stocked(space: Space) -> Space:
    """A queue with something in every key."""
    space.push(body("a"), body("b"))
    space.hand_over(body("c"))
    space.lease("d", count=3, extended=f"7:{FUTURE}")
    space.lease("e", deadline=PAST)
    space.delay("f")
    space.die("g", b"")
    space.client.set(space.key("PAUSED"), 1)
    return space


def test_a_purge_leaves_the_dead_letters_and_the_pause(space: Space) -> None:
    full = stocked(space)
    dead = full.dump()["DEAD"]
    assert full.call("purge", 0) == 6
    assert full.dump() == {"DEAD": dead, "PAUSED": b"1"}


def test_a_purge_of_the_dead_letters_too_leaves_the_pause_alone(space: Space) -> None:
    full = stocked(space)
    assert full.call("purge", 1) == 7
    assert full.dump() == {"PAUSED": b"1"}


def test_an_empty_queue_can_be_purged(space: Space) -> None:
    assert space.call("purge", 1) == 0
    assert space.dump() == {}


def test_deleted_work_does_not_come_back(space: Space) -> None:
    full = stocked(space)
    full.client.delete(full.key("PAUSED"))
    full.call("purge", 1)
    assert full.pop().status == "empty"
    assert full.ack((FUTURE, "d")) == [0, -1]
    assert full.nack((FUTURE, 0, "d")) == [0, -1]
    assert full.dump() == {}
