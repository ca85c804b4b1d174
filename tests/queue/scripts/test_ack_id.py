"""ack_id: the article's ack, by bare id and without a fence."""

from tests.queue.scripts.space import FUTURE, MIB, PAST, Space, body


def test_an_id_in_flight_is_deleted_with_every_record(space: Space) -> None:
    space.lease("a", count=3, extended=f"7:{FUTURE}")
    assert space.call("ack_id", "a")[0] == 1
    assert space.dump() == {}


def test_other_messages_stay_as_they_are(space: Space) -> None:
    space.lease("b", count=3, extended=f"7:{FUTURE}")
    space.push(body("a"))
    before = space.dump()
    space.lease("a")
    assert space.call("ack_id", "a")[0] == 1
    assert space.dump() == before


def test_it_is_not_fenced(space: Space) -> None:
    space.push(body("a"))
    space.pop(timeout=1)
    space.pop()  # another consumer's
    assert space.call("ack_id", "a")[0] == 1
    assert space.dump() == {}


def test_an_expired_message_can_be_acked(space: Space) -> None:
    space.lease("a", deadline=PAST)
    assert space.call("ack_id", "a")[0] == 1


def test_a_delayed_message_cannot_be_acked(space: Space) -> None:
    space.delay("a", count=2)
    before = space.dump()
    assert space.call("ack_id", "a")[0] == 0
    assert space.dump() == before


def test_a_ready_message_cannot_be_acked(space: Space) -> None:
    space.push(body("a"))
    space.client.hset(space.key("RECEIVES"), "a", 2)
    before = space.dump()
    assert space.call("ack_id", "a")[0] == 0
    assert space.dump() == before


def test_an_orphan_cannot_be_acked(space: Space) -> None:
    space.client.hset(space.key("CONTEXT"), "a", "orphan")
    assert space.call("ack_id", "a")[0] == 0
    assert space.bodies == {b"a": b"orphan"}


def test_a_repeated_ack_counts_nothing(space: Space) -> None:
    space.lease("a")
    space.lease("b")
    assert space.call("ack_id", "a", "gone", "b", "a")[0] == 2
    assert space.call("ack_id", "a", "b")[0] == 0


def test_one_call_deletes_eight_mebibytes(space: Space) -> None:
    for key in "abcde":
        space.lease(key, b"x" * (3 * MIB))
    weighed = space.weigh("ack_id", "a", "gone", *"bcde")
    assert (weighed.reply, weighed.total < 1000) == ([3, 4], True)
    assert space.bodies.keys() == {b"d", b"e"}
