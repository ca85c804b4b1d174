"""pick: chosen ready messages become dead letters, or the next ones. Notes of pick in pop."""

from typing import Any

import pytest

from tests.queue.scripts.space import FUTURE, MIB, NOW, SECOND, Space, body, listed_field, mark

WEEK = 7 * 86400 * SECOND
ENDS = [pytest.param("right"), pytest.param("left")]


def of_end(space: Space, end: str) -> Space:
    return space.popped_from_the_left() if end == "left" else space


def pick(space: Space, verb: str, *ids: str, place: str = "ready") -> tuple[int, int]:
    """Look through a whole list; return how many were picked, and how many left in place."""
    left, began, picked, stay = 2**53 - 1, b"0", 0, 0
    while int(left):
        left, _, began, some, others = space.call("pick", verb, place, left, began, space.end, *ids)
        picked, stay = picked + some, stay + others
    return picked, stay


def notes(space: Space) -> dict[bytes, int]:
    """Return how many of each message are noted as canceled, by their fields."""
    return {field: canceled for field, (_, canceled) in space.listed.items()}


def note(*bodies: bytes) -> dict[bytes, int]:
    """Return what the notes are if each of these bodies is noted once."""
    return {listed_field(each.split(b'"')[3], each): 1 for each in bodies}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", ["ready", "handoff"])
def test_messages_leave_the_list_and_are_dead_letters(space: Space, end: str, place: str) -> None:
    space = of_end(space, end)
    bodies = [body(each) for each in "abcabd"]
    (space.push if place == "ready" else space.hand_over)(*bodies)
    assert pick(space, "cancel", "a", "d", "none", place=place) == (3, 0)
    assert space.front == [body(each) for each in "bcb"]
    assert sorted(space.dead) == [
        (key, body(key.decode()), "canceled", 0) for key in (b"a", b"a", b"d")
    ]
    assert set(space.dump()) - {"RECORD"} == {"" if place == "ready" else "HANDOFF", "DEAD"}


@pytest.mark.parametrize("end", ENDS)
def test_messages_run_next_in_the_order_in_which_they_were_ready(space: Space, end: str) -> None:
    space = of_end(space, end)
    space.push(*map(body, "abcdef"))
    space.hand_over(body("g"), body("h"), body("i"))
    assert pick(space, "run_now", "h", "i", place="handoff") == (2, 0)
    assert space.front[:3] == [body("h"), body("i"), body("g")]
    assert pick(space, "run_now", "b", "f", "d") == (3, 0)
    assert space.front == list(map(body, "bdfhigace"))
    assert not space.dead


def test_the_count_and_the_errors_of_a_message_on_the_list_go_with_it(space: Space) -> None:
    space.push(body("a"), body("b"), body("c"))
    for id in "abc":
        space.list_note(id, body("a" if id == "a" else "x"), 3)
        space.note(id, body("a" if id == "a" else "x"), b"2:7:{}", b"3:8:{}")
    space.client.hset(space.key("RECEIVES"), "c", 5)  # of a message in flight
    before = space.dump()
    assert pick(space, "cancel", "a", "b", "c") == (3, 0)
    assert {letter[0]: letter[3] for letter in space.dead} == {b"a": 3, b"b": 0, b"c": 0}
    assert sorted(space.dead_lettered) == [[], [], [b"2:7:{}", b"3:8:{}"]]
    assert space.dump()["RECEIVES"] == {b"c": b"5"}
    assert space.dump()["ERRORS"] == {key: before["ERRORS"][key] for key in (b"b", b"c")}
    assert space.listed == {listed_field(id, body("x")): (3, 0) for id in "bc"}


@pytest.mark.parametrize(
    "raw",
    [
        b'{"id": "a"}',
        b'{"x":"y","id":"a"}',
        b'{"x":{"id":"z"},"id" : "\\u0061"}',
    ],
)
def test_an_id_is_that_which_pop_sees(space: Space, raw: bytes) -> None:
    space.push(raw, b'{"x":{"id":"a"}}', b'{"x":"\\"id\\":\\"a\\""}', b'["id","a"]', body("b"))
    assert pick(space, "cancel", "a") == (1, 0)
    assert [letter[:2] for letter in space.dead] == [(b"a", raw)]


def test_an_integer_is_an_id(space: Space) -> None:
    space.push(b'{"id":17}', b'{"x":1,"id":17.0}', b'{"id":"17"}', b'{"x":1,"id":18}')
    assert pick(space, "cancel", "17") == (3, 0)
    assert space.ready == [b'{"x":1,"id":18}']


def test_long_bodies_are_searched_in_front_only(space: Space) -> None:
    far = b'{"x":"%s","id":"a"}' % (b"x" * 65536)
    space.push(far, body("a", 65536))
    assert pick(space, "cancel", "a") == (1, 0)
    assert space.ready == [far]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("verb", ["cancel", "run_now"])
def test_near_either_end_a_message_leaves_the_list_and_deep_in_it_stays(
    space: Space, end: str, verb: str
) -> None:
    space = of_end(space, end).frozen()
    ids = [f"{n:05d}" for n in range(7000)]
    space.push(*map(body, ids))
    wanted = (ids[3], ids[3500], ids[6995])
    picked = pick(space.deep_after(2500), verb, *wanted)
    assert picked == ((3, 0) if verb == "cancel" else (2, 1))
    near = [body(wanted[0]), body(wanted[2])]
    if verb == "cancel":
        assert sorted(letter[1] for letter in space.dead) == near
        assert notes(space) == note(body(wanted[1]))
    else:
        assert space.in_order("HANDOFF")[::-1] in (near, near[::-1])
        assert notes(space) == {}
    left = [each for each in map(body, ids) if each not in near]
    assert space.ready == left


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("wanted", [1, 3])
def test_a_noted_message_is_a_dead_letter_when_it_arrives(
    space: Space, end: str, wanted: int
) -> None:
    space = of_end(space, end).frozen()
    space.push(body("a"), body("b"), body("c"))
    assert pick(space.deep_after(0), "cancel", "a", "b") == (2, 0)
    assert notes(space) == note(body("a"), body("b"))
    assert space.ready == [body("a"), body("b"), body("c")]
    assert space.pop(wanted).keys == [b"c"]
    assert space.dead == [(key, body(key.decode()), "canceled", 0) for key in (b"a", b"b")]
    assert set(space.dump()) - {"RECORD"} == {"BACKUP", "CONTEXT", "DEAD"}


def test_a_note_applies_to_no_other_body_and_only_as_often_as_it_says(space: Space) -> None:
    frozen = space.frozen()
    space.push(body("a"), body("b"))
    pick(frozen.deep_after(0), "cancel", "a")
    space.push(body("a", 9), body("a"))
    space.client.rpush(space.name, body("a", 8))
    popped = frozen.pop(5)
    assert popped.bodies == [body("a", 8), body("b"), body("a", 9), body("a")]
    assert [letter[1] for letter in space.dead] == [body("a")]
    assert notes(space) == {}


def test_equal_and_different_messages_of_an_id_are_noted_each(space: Space) -> None:
    frozen = space.frozen()
    others = [body("a", 9 + n) for n in range(20)]
    space.push(body("a"), body("a"), *others, body("b"))
    for _ in range(2):  # which notes nothing twice
        assert pick(frozen.deep_after(0), "cancel", "a") == (22, 0)
        assert notes(space) == {**note(*others), listed_field("a", body("a")): 2}
        frozen = frozen.frozen(NOW + 1)
    assert frozen.pop(9).keys == [b"b"]
    assert (len(space.dead), notes(space)) == (22, {})


def test_what_is_noted_and_then_picked_near_an_end_needs_its_note_no_more(space: Space) -> None:
    space.push(body("a"))
    pick(space.deep_after(0), "cancel", "a")
    assert pick(space, "cancel", "a") == (1, 0)
    assert notes(space) == {}


def test_what_only_a_later_call_finds_is_canceled_too(space: Space) -> None:
    """The first call of a cancel found nothing, so there was no note yet."""
    space.push(body("a"), body("b"))
    later = space.frozen(NOW + 9).deep_after(0)
    space.client.hset(space.key("NOTES"), "", NOW + 5)  # a pop found the lists empty
    _, _, began, *_ = later.call("pick", "cancel", "ready", 2**53 - 1, NOW, "right", "a")
    assert int(began) == NOW + 6
    assert later.pop(2).keys == [b"b"]
    assert [letter[0] for letter in space.dead] == [b"a"]


@pytest.mark.parametrize("later", [WEEK - 1, WEEK])
def test_a_note_ends_after_a_week(space: Space, later: int) -> None:
    space.push(body("a"))
    pick(space.frozen().deep_after(0), "cancel", "a")
    assert space.frozen(NOW + later).pop().status == ("again" if later < WEEK else "ok")


def test_a_pop_that_finds_the_lists_empty_ends_all_notes(space: Space) -> None:
    frozen = space.frozen()
    ids = [f"{number}" for number in range(20)]
    space.push(*map(body, ids))
    pick(frozen.deep_after(0), "cancel", *ids)
    others = {listed_field(f"x{n}", b"x"): f"{NOW} 0 1" for n in range(20_000)}
    space.client.hset(space.key("NOTES"), mapping=others)
    space.client.delete(space.name)  # as by a bare RPOP
    assert frozen.pop().status == "empty"
    assert len(notes(space)) >= 19_920, "a pop removes a hundred"
    space.push(*map(body, ids), body("new"))
    pick(frozen.frozen(NOW + 1).deep_after(0), "cancel", "new")
    assert len(frozen.frozen(NOW + 2).pop(200).keys) == 20


def test_a_message_whose_count_is_on_the_list_dies_with_it(space: Space) -> None:
    frozen = space.frozen()
    space.push(body("a"), body("b"), body("c"))
    space.list_note("a", body("a"), 3)
    space.note("a", body("a"), b"3:8:{}")
    space.lease("b", body("b", 9), count=4)
    pick(frozen.deep_after(0), "cancel", "a", "b")
    assert frozen.pop(3).keys == [b"c"]
    assert [letter[::3] for letter in space.dead] == [(b"a", 3), (b"b", 0)]
    assert space.dead_lettered == [[b"3:8:{}"], []]
    assert (space.receives, space.noted("a"), space.listed) == ({b"b": 4}, [], {})


@pytest.mark.parametrize("near", [0, 9])
def test_a_dead_letter_frees_the_id_of_a_unique_push(space: Space, near: int) -> None:
    space.push(body("a"), body("b"))
    space.client.hset(space.key("NOTES"), ":a", b"%s/%d" % (mark(body("a")), FUTURE))
    pick(space.deep_after(near), "run_now", "b")
    pick(space.deep_after(near), "cancel", "a")
    assert space.pop().keys == [b"b"]
    (letter,) = space.client.xrange(space.key("DEAD"))
    assert (letter[1].get(b"unique"), letter[1][b"count"]) == (b"1", b"0")
    assert "NOTES" not in space.dump()


@pytest.mark.parametrize("place", ["ready", "handoff"])
def test_what_was_canceled_does_not_run_now(space: Space, place: str) -> None:
    (space.push if place == "ready" else space.hand_over)(*map(body, "abc"))
    assert pick(space.deep_after(0), "cancel", "b", place=place) == (1, 0)
    assert pick(space, "run_now", "b", "c", place=place) == (1, 0)
    assert [letter[0] for letter in space.dead] == [b"b"]
    assert space.pop(3).keys == [b"c", b"a"]
    assert "NOTES" not in space.dump()


def test_one_call_looks_at_two_thousand_messages_or_a_mebibyte_and_picks_a_hundred(
    space: Space,
) -> None:
    def call(*ids: str) -> list[Any]:
        reply: list[Any] = space.call("pick", "cancel", "ready", 2**53 - 1, 0, "right", *ids)
        return [int(reply[0]), reply[1], *reply[3:]]

    space.push(*(body(f"{n}") for n in range(2500)))
    left, size, *picked = call("none")
    assert (size, picked) == (2500, [0, 0])
    assert 2500 - 2016 <= left <= 500
    left, _, picked, _ = call(*map(str, range(1000, 2000)))
    assert picked == 100
    space.client.delete(space.name)
    space.push(*(body(f"{n}", MIB // 2) for n in range(4)))
    assert call("none") == [2, 4, 0, 0]


def test_far_from_an_end_a_call_picks_fewer(space: Space) -> None:
    fill = """for n = 1, 45000 do redis.call('LPUSH', KEYS[1], '{"id":"' .. n .. '"}') end"""
    space.client.eval(fill, 1, space.name)
    for middle, least, most in ((22_000, 80, 99), (1000, 100, 100)):
        ids = map(str, range(middle, middle + 200))
        picked = space.call("pick", "cancel", "ready", middle + 250, 0, "right", *ids)[3]
        assert least <= picked <= most
    space.client.unlink(space.name)


def test_notes_of_failures_count_against_the_budget(space: Space) -> None:
    for number in range(10):
        id = f"{number}"
        space.push(body(id))
        space.list_note(id, body(id), 2)
        space.note(id, body(id), b"1:7:" + b"x" * 50_000)
    left, *_ = space.call("pick", "run_now", "ready", 2**53 - 1, 0, "right", *map(str, range(10)))
    assert int(left) == 4
    pick(space.deep_after(0), "cancel", *map(str, range(10)), place="handoff")
    assert pick(space.deep_after(0), "cancel", *map(str, range(10))) == (4, 0)
    assert space.pop(10).status == "again"
    assert len(space.dead) == 6


def test_one_call_decodes_72_kib(space: Space) -> None:
    space.push(*(b'{"x":"%s","id":"%d"}' % (b"x" * 30_000, n) for n in range(9)))
    ids = [f"{n}" for n in range(9)]
    left, *_ = space.call("pick", "cancel", "ready", 2**53 - 1, 0, "right", *ids)
    assert int(left) == 7
    assert pick(space, "cancel", *ids) == (7, 0)


def test_one_call_looks_at_some_thousand_fields(space: Space) -> None:
    space.push(*(b'{"x":[%s],"id":"%d"}' % (b'{"id":"z"},' * 2000, n) for n in range(9)))
    left, *_ = space.call("pick", "cancel", "ready", 2**53 - 1, 0, "right", "x")
    assert int(left) == 7


def test_what_is_taken_and_pushed_meanwhile_hides_no_message(space: Space) -> None:
    ids = [f"m{n}" for n in range(5000)]
    space.push(*map(body, ids))
    left, began, picked, number, taken = 2**53 - 1, b"0", 0, 0, 0
    while int(left):
        left, _, began, some, _ = space.call(
            "pick", "cancel", "ready", left, began, "right", *ids[1500:5000:500]
        )
        picked += some
        for _ in range(300):
            taken += space.client.rpop(space.name) in (*map(body, ids[1500:5000:500]),)
            space.push(body(f"new-{number}"))
            number += 1
    assert picked + taken == 7


def test_a_count_of_what_was_canceled(space: Space) -> None:
    space.call("watch", 60_000)
    space.push(body("a"), body("b"))
    pick(space, "cancel", "a")
    pick(space.deep_after(0), "cancel", "b")
    pick(space, "run_now", "none")
    counted = space.client.hget(space.key("COUNTERS"), "dead:canceled")
    assert counted == b"1"
    space.pop()
    assert space.client.hget(space.key("COUNTERS"), "dead:canceled") == b"2"
