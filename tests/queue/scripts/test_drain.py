"""drain: back to a plain list."""

import pytest

from tests.queue.scripts.space import FUTURE, MIB, NOW, PAST, Space, body


def test_everything_goes_back_to_the_list_in_the_order_of_delivery(space: Space) -> None:
    space.push(body("listed-1"), body("listed-2"))
    space.hand_over(body("handed-1"), body("handed-2"))
    space.lease("leased-1", deadline=PAST, count=3, extended=f"7:{PAST}")
    space.lease("leased-2", deadline=FUTURE)
    space.delay("delayed-1", due=PAST)
    space.delay("delayed-2", due=FUTURE, count=3)
    assert space.call("drain", 1000, space.end) == 6
    order = ["leased-1", "leased-2", "delayed-1", "delayed-2", "handed-1", "handed-2"]
    order += ["listed-1", "listed-2"]
    assert space.dump() == {"": [body(id) for id in reversed(order)]}


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_steps_end_where_one_call_ends(space: Space, wanted: int) -> None:
    space.push(body("listed"))
    space.hand_over(body("handed-1"), body("handed-2"))
    for number in (1, 2, 3):
        space.lease(f"leased-{number}", deadline=NOW + number)
        space.delay(f"delayed-{number}", due=NOW + number)
    moved = []
    while step := space.call("drain", wanted, space.end):
        moved.append(step)
    assert sum(moved) == 8
    assert max(moved) == wanted
    order = [f"{where}-{number}" for where in ("leased", "delayed") for number in (1, 2, 3)]
    order += ["handed-1", "handed-2", "listed"]
    assert space.dump() == {"": [body(id) for id in reversed(order)]}


def test_a_step_in_the_middle_leaves_every_message_in_one_place(space: Space) -> None:
    space.lease("a")
    space.lease("b", deadline=FUTURE + 1)
    assert space.call("drain", 1, space.end) == 1
    assert space.dump() == {
        "": [body("b")],
        "BACKUP": {b"a": FUTURE},
        "CONTEXT": {b"a": body("a")},
    }


def test_bodies_come_back_byte_for_byte(space: Space) -> None:
    bodies = [b"", b"\0", b'{"id":"a","x":[]}', bytes(range(256))]
    for number, raw in enumerate(bodies):
        space.lease(b"\0%d" % number, raw, deadline=FUTURE + number)
    space.call("drain", 10, space.end)
    assert space.ready == bodies


def test_a_record_without_a_body_stays_for_an_audit(space: Space) -> None:
    space.client.zadd(space.key("BACKUP"), {"gone": PAST})
    assert space.call("drain", 1000, space.end) == 0
    assert space.dump() == {"BACKUP": {b"gone": PAST}}


def test_dead_letters_and_orphans_stay(space: Space) -> None:
    space.die("a", b"body")
    space.client.hset(space.key("CONTEXT"), "orphan", "body")
    before = space.dump()
    assert space.call("drain", 1000, space.end) == 0
    assert space.dump() == before


def test_one_call_moves_a_mebibyte(space: Space) -> None:
    space.hand_over(b"x" * (5 * MIB // 8))
    space.lease("a", b"y" * (5 * MIB // 8))
    space.delay("b", b"z" * (5 * MIB // 8))
    assert space.call("drain", 1000, space.end) == 2
    assert space.call("drain", 1000, space.end) == 1
    assert [raw[:1] for raw in space.ready] == [b"y", b"z", b"x"]


def test_an_ack_after_a_drain_finds_nothing(space: Space) -> None:
    space.lease("a")
    space.call("drain", 1000, space.end)
    assert space.ack((FUTURE, "a")) == [0, -1]
    assert space.ready == [body("a")]


def test_records_without_a_body_do_not_hide_the_others(space: Space) -> None:
    space.lease("a", deadline=PAST)
    space.client.zadd(space.key("BACKUP"), {"gone": FUTURE, "lost": FUTURE})
    assert space.call("drain", 2, space.end) == 1
