"""alone: a message begins to run alone, which is noted before."""

import pytest

from tests.queue.scripts.space import FUTURE, NOW, PAST, Space, body

FAILURE = b'{"type":"A"}'


def line(count: int, failure: bytes = FAILURE, at: int = NOW) -> bytes:
    return b"%d:%d:%s" % (count, at, failure)


def test_a_delivery_is_noted_before_it_begins(space: Space) -> None:
    space.lease("a", count=3)
    space.note("a", body("a"), line(1), line(2))
    assert space.frozen().call("alone", FUTURE, "a", 4, 3, FAILURE) == [b"ok", body("a")]
    assert space.noted("a") == [line(1), line(2), line(4)]
    assert space.client.hget(space.key("RECEIVES"), "a") == b"4"


def test_without_a_limit_and_at_a_first_delivery_it_runs(space: Space) -> None:
    space.lease("a")
    assert space.frozen().call("alone", FUTURE, "a", 1, 0, "") == [b"ok", body("a")]
    assert space.noted("a") == [line(1, b"")]
    assert "RECEIVES" not in space.dump()


def test_whoever_has_lost_the_lease_notes_nothing(space: Space) -> None:
    space.lease("a", count=2)
    space.lease("b", count=2, deadline=PAST, extended=f"7:{PAST}")
    space.delay("c", count=2)
    before = space.dump()
    for receipt, key in ((FUTURE + 1, "a"), (8, "b"), (FUTURE, "c"), (FUTURE, "d")):
        assert space.call("alone", receipt, key, 3, 2, FAILURE) == [b"lost"]
    assert space.dump() == before
    assert space.call("alone", 7, "b", 3, 2, FAILURE)[0] == b"ok"


@pytest.mark.parametrize(
    ("noted", "status"),
    [((1, 2), b"ok"), ((1, 3), b"over"), ((), b"ok"), ((1, 4), b"ok"), ((3, 6), b"over")],
)
def test_a_message_over_its_limit_is_dead_if_a_last_delivery_is_known_to_have_failed(
    space: Space, noted: tuple[int, ...], status: bytes
) -> None:
    """Also if others took it since, in which it did not begin."""
    count = max(4, *noted, 0)
    space.lease("a", count=count)
    if noted:
        space.note("a", body("a"), *map(line, noted))
    before = space.dump()
    assert space.call("alone", FUTURE, "a", count, 3, FAILURE)[0] == status
    assert (space.dump() == before) is (status == b"over")


def test_a_note_of_another_message_with_its_id_does_not_count(space: Space) -> None:
    space.lease("a", count=4)
    space.note("a", body("other"), line(3))
    assert space.frozen().call("alone", FUTURE, "a", 4, 3, FAILURE)[0] == b"ok"
    assert space.noted("a") == [line(4)]


def test_a_call_that_is_sent_again_changes_nothing(space: Space) -> None:
    space.lease("a", count=4)
    space.note("a", body("a"), line(1))
    assert space.frozen().call("alone", FUTURE, "a", 4, 3, FAILURE)[0] == b"ok"
    before = space.dump()
    assert space.frozen().call("alone", FUTURE, "a", 4, 3, FAILURE)[0] == b"ok"
    assert space.dump() == before


def test_its_failure_replaces_the_note(space: Space) -> None:
    space.lease("a", count=4)
    space.note("a", body("a"), line(1))
    space.frozen().call("alone", FUTURE, "a", 4, 3, FAILURE)
    space.frozen(NOW + 9).nack((FUTURE, 0, "a"), errors=(1, b"{}"))
    assert space.noted("a") == [line(1), line(4, b"{}", NOW + 9)]


@pytest.mark.parametrize("delay", [0, 1000, -1])
@pytest.mark.parametrize("count", [1, 4, 14])
def test_a_release_forgets_that_the_delivery_began(space: Space, delay: int, count: int) -> None:
    """It did not fail, so no later one is dead because of it."""
    space.lease("a", count=count)
    earlier = [line(1), line(2)] if count > 2 else []
    space.note("a", body("a"), *earlier)
    space.frozen().call("alone", FUTURE, "a", count, 3, FAILURE)
    space.frozen().nack((FUTURE, delay, "a"), way="release")
    assert space.noted("a") == earlier
