"""schedule: store now, deliver later."""

from __future__ import annotations

import pytest

from tests.scripts.space import FUTURE, NOW, PAST, SECOND, Space, Value, body


def test_a_message_with_a_delay_is_due_that_long_from_now(space: Space) -> None:
    assert space.frozen().call("schedule", "delay", 5 * SECOND, "a", body("a")) == 1
    assert space.dump() == {"CONTEXT": {b"a": body("a")}, "DELAYED": {b"a": NOW + 5 * SECOND}}


def test_a_delay_counts_from_the_servers_time(space: Space) -> None:
    before = space.now()
    space.call("schedule", "delay", SECOND, "a", body("a"))
    assert before <= space.delayed[b"a"] - SECOND <= space.now()


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
    assert space.delayed == dict.fromkeys(space.bodies, FUTURE)


def test_a_key_that_is_taken_is_replaced_and_both_bodies_survive(space: Space) -> None:
    space.lease("held", b"held")
    space.delay("later", b"later")
    space.client.hset(space.key("CONTEXT"), "orphan", "orphan")
    call: list[Value] = ["held", b"1", "later", b"2", "orphan", b"3", "new", b"4", "new", b"5"]
    assert space.frozen().call("schedule", "at", FUTURE, *call) == 5
    derived = [b"\0%d:%d:%04d" % (FUTURE, NOW, number) for number in (1, 2, 3, 4)]
    assert space.bodies == {
        b"held": b"held",
        b"later": b"later",
        b"orphan": b"orphan",
        b"new": b"4",
        **dict(zip(derived, (b"1", b"2", b"3", b"5"), strict=True)),
    }
    assert space.delayed == dict.fromkeys([b"later", b"new", *derived], FUTURE)
    assert space.leases == {b"held": FUTURE}


@pytest.mark.parametrize("key", [b"", b"\0", b"\0004000000000000000:0001"])
def test_no_key_and_a_key_that_looks_derived_are_derived(space: Space, key: bytes) -> None:
    space.frozen().call("schedule", "at", FUTURE, key, b"body")
    assert space.bodies == {b"\0%d:%d:0001" % (FUTURE, NOW): b"body"}


def test_a_derived_key_never_collides_with_one_that_exists(space: Space) -> None:
    for _ in range(3):
        space.frozen().call("schedule", "at", FUTURE, "", b"body")
    assert space.bodies.keys() == {b"\0%d:%d:%04d" % (FUTURE, NOW, n) for n in (1, 2, 3)}
