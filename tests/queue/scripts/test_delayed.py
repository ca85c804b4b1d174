"""run_now and cancel: chosen delayed messages become ready, or dead letters."""

import pytest

from tests.queue.scripts.grouped import message, pop, record
from tests.queue.scripts.space import FUTURE, MIB, NOW, PAST, Space, body


def test_messages_run_now_in_the_given_order_with_what_is_known_of_them(space: Space) -> None:
    space.delay("a", count=2)
    space.note("a", body("a"), b"2:7:{}")
    space.delay("b", due=FUTURE - 1)
    space.delay("c")
    before = space.dump()
    assert space.frozen().call("run_now", "", "b", FUTURE, "a") == 2
    moved = {b"b": NOW - 499, b"a": NOW - 498, b"c": FUTURE}
    assert space.dump() == before | {"DELAYED": moved}
    assert space.noted("a") == [b"2:7:{}"]
    popped = space.frozen().pop(3)
    assert (popped.keys, popped.counts) == ([b"b", b"a"], [1, 3])


@pytest.mark.parametrize("script", ["run_now", "redrive"])
@pytest.mark.parametrize("groups", ["none", "free", "nacked"])
def test_the_last_message_that_is_made_ready_wakes_a_consumer(
    space: Space, script: str, groups: str
) -> None:
    bodies = {id: message(id, "g" if id == "a" else None) for id in ("b", "a")}
    if groups != "none":
        record(space)
    if script == "redrive":
        for id in bodies:
            space.die(id, bodies[id])
    else:
        for id in bodies:
            space.delay(id, bodies[id], count=1 if id == "a" else 0)
    if groups == "nacked" and script == "run_now":
        space.client.hset(space.key("GROUPS:FLIGHT"), "a", f"={'0' * 16}g")
        space.client.hset(space.key("GROUPS:BUSY"), "g", 1)
    space.client.set(space.key("WAITERS:LOOKS"), f"{NOW}:1.000", px=10_000)
    arguments = (10, "", 0) if script == "redrive" else ("", "b", "", "a")
    space.frozen().call(script, *arguments)
    assert (space.ready, list(space.delayed)) == ([bodies["a"]], [b"b"])
    popped = (pop if space.grouped else Space.pop)(space.frozen(), 3)
    assert popped.keys == [b"b", b"a"]
    assert popped.counts == [1, 1 if script == "redrive" else 2]
    assert "NOTES" not in space.dump()


def test_what_is_due_or_leased_or_delayed_anew_does_not_run_now(space: Space) -> None:
    space.delay("due", due=NOW)
    space.delay("again")
    space.lease("leased")
    before = space.dump()
    chosen = ("", "due", NOW, "due", FUTURE - 1, "again", "", "leased", "", "gone")
    assert space.frozen().call("run_now", *chosen) == 0
    assert space.dump() == before


def test_a_message_is_canceled_with_its_body_its_count_and_its_errors(space: Space) -> None:
    space.delay("a", b"\xff not its id", count=2)
    space.note("a", b"\xff not its id", b"1:7:{}", b"2:8:{}")
    space.delay("b", due=PAST)
    space.delay("c")
    assert space.call("cancel", 0, FUTURE, "a", "", "b") == [2, 2]
    assert space.dead == [
        (b"a", b"\xff not its id", "canceled", 2),
        (b"b", body("b"), "canceled", 0),
    ]
    assert space.dead_lettered == [[b"1:7:{}", b"2:8:{}"], []]
    left = space.dump()
    left.pop("DEAD")
    assert left == {"CONTEXT": {b"c": body("c")}, "DELAYED": {b"c": FUTURE}}


def test_a_note_of_an_earlier_message_with_the_same_id_is_not_kept(space: Space) -> None:
    space.delay("a", count=1)
    space.note("a", body("a"), b"2:7:{}")
    space.delay("b", count=1)
    space.note("b", b"another body", b"1:7:{}")
    assert space.call("cancel", 0, "", "a", "", "b") == [2, 2]
    assert space.dead_lettered == [[], []]


def test_what_is_leased_or_delayed_anew_or_has_no_body_is_not_canceled(space: Space) -> None:
    space.delay("again")
    space.lease("leased")
    space.client.zadd(space.key("DELAYED"), {"hollow": FUTURE})
    before = space.dump()
    chosen = (FUTURE - 1, "again", "", "leased", FUTURE, "leased", "", "hollow", "", "gone")
    assert space.call("cancel", 0, *chosen) == [0, 5]
    assert space.dump() == before


def test_one_call_cancels_a_hundred_or_a_mebibyte(space: Space) -> None:
    with space.batched() as keys:
        for number in range(150):
            keys.delay(f"{number}")
    chosen = [each for number in range(150) for each in ("", f"{number}")]
    assert space.call("cancel", 0, *chosen) == [100, 100]
    assert space.call("cancel", 0, *chosen[200:]) == [50, 50]
    for number in range(5):
        space.delay(f"{number}", b"x" * (3 * MIB // 8))
    weighed = space.weigh("cancel", 0, *chosen[:10])
    assert weighed.reply == [3, 3]
    assert weighed.total < 3 * (3 * MIB // 8) + 10_000
    assert len(space.delayed) == 2
