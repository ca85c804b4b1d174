"""push_unique: messages, each unless one with its id is in the queue."""

from typing import Any

import pytest

from tests.queue.scripts.grouped import record
from tests.queue.scripts.space import FUTURE, NOW, PAST, SECOND, Space, Value, body, mark

A, B = body("a"), body("b")
DAY = 86_400 * SECOND
QUEUED, STORED, REPLACED = [b"queued", b""], [b"stored", b""], [b"replaced", b""]


def push(
    space: Space,
    *ids: str,
    unique: str = "done",
    replace: Value = 0,
    believed: Value = DAY,
    when: str = "now",
    due: Value = 0,
    known: bytes = b"",
    bodies: dict[str, bytes] | None = None,
) -> Any:
    messages = [
        value for id in ids or ("a",) for value in (id, (bodies or {}).get(id) or body(id), known)
    ]
    head = (unique, replace, believed, when, due, space.end)
    _, *rows = space.call("push_unique", *head, *messages)
    return rows


def test_a_message_is_stored_and_noted(space: Space) -> None:
    assert push(space.frozen()) == STORED
    assert space.dump() == {"": [A], "NOTES": {b":a": b"%s/%d" % (mark(A), NOW + DAY)}}


def test_it_is_refused_while_one_is_ready_or_leased_and_stored_after_the_ack(space: Space) -> None:
    push(space)
    assert push(space) == QUEUED
    popped = space.pop()
    assert popped.keys == [b"a"]
    assert push(space) == QUEUED
    space.ack((popped.deadline, "a"))
    assert space.dump() == {}
    assert push(space) == STORED


@pytest.mark.parametrize("way", ["nack", "release", "reject", "ended", "again", "back"])
def test_a_redelivered_message_keeps_its_id(space: Space, way: str) -> None:
    push(space)
    popped = space.pop()
    if way == "reject":
        space.reject((popped.deadline, "a"))
        assert push(space) == STORED  # a dead letter frees it
        return
    if way == "nack":
        space.nack((popped.deadline, SECOND, "a"))
    elif way == "release":
        space.nack((popped.deadline, -1, "a"), way="release")
    elif way in ("ended", "again", "back"):
        space.client.zadd(space.key("BACKUP"), {"a": PAST})
    if way == "again":
        assert space.pop().counts == [2]
    if way == "back":
        space.push(B)
        assert space.pop(requeue="back").keys == [b"b"]
        assert space.ready == [A]
    before = space.dump()
    listed = way in ("release", "back")
    status, notes = push(space)
    assert status == (b"search" if listed else b"queued")
    assert space.dump() == before
    if listed:
        assert push(space, known=b"+" + notes) == QUEUED
        assert push(space) == QUEUED  # believed from now on
        popped = space.pop()
        assert popped.counts == [1 if way == "release" else 2]
        space.ack((popped.deadline, "a"))
        assert push(space) == STORED


def test_with_taken_it_is_refused_until_one_is_taken(space: Space) -> None:
    assert push(space, unique="taken") == STORED
    assert push(space, unique="taken") == QUEUED
    first = space.pop()
    assert push(space, unique="taken") == STORED
    assert push(space, unique="taken") == QUEUED
    space.ack((first.deadline, "a"))
    assert push(space, unique="taken") == QUEUED
    second = space.pop()
    assert second.keys == [b"a"]
    assert push(space, unique="taken") == STORED
    assert push(space, unique="done") == QUEUED
    third = space.pop(jitter=1)
    assert third.bodies == [A]
    space.ack((second.deadline, "a"), (third.deadline, third.keys[0]))
    assert space.dump() == {}


@pytest.mark.parametrize("way", ["nack", "ended"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_with_taken_another_delivery_counts_as_waiting(space: Space, which: int, way: str) -> None:
    """Those under derived keys, too: with "taken", several of an id may be in flight."""
    runs = []
    for number in range(3):
        assert push(space, unique="taken") == STORED
        runs.append(space.pop(jitter=number))
    run = runs[which]
    if way == "nack":
        space.nack((run.deadline, SECOND, *run.keys))
    else:
        space.client.zadd(space.key("BACKUP"), {run.keys[0]: PAST})
    assert push(space, unique="taken") == QUEUED
    assert space.named == {b"a": space.named[b"a"]}
    for each in runs:
        space.client.zadd(space.key("BACKUP"), {each.keys[0]: each.deadline})
        assert space.ack((each.deadline, *each.keys)) == [1]
    space.client.delete(space.key("DELAYED"))
    assert space.dump() == {}


def test_a_delayed_message_needs_no_list(space: Space) -> None:
    assert push(space.frozen(), when="delay", due=5 * SECOND) == STORED
    assert space.dump() == {
        "DELAYED": {b"a": NOW + 5 * SECOND},
        "CONTEXT": {b"a": A},
        "NOTES": {b":a": b"="},
    }
    assert push(space) == QUEUED
    space.client.zadd(space.key("DELAYED"), {"a": PAST})
    popped = space.pop()
    assert popped.counts == [1]
    space.client.zadd(space.key("BACKUP"), {"a": PAST})
    assert space.pop().counts == [2]


def test_a_delayed_message_can_be_replaced_until_it_is_due(space: Space) -> None:
    now = space.frozen()
    push(now, when="delay", due=SECOND)
    space.note("a", A, b"1:7:{}")
    other = b'{"id":"a","n":2}'
    replaced: dict[str, Any] = {
        "replace": 1,
        "when": "delay",
        "due": 9 * SECOND,
        "bodies": {"a": other},
    }
    assert push(now, **replaced) == REPLACED
    assert space.delayed == {b"a": NOW + 9 * SECOND}
    assert space.bodies == {b"a": other}
    assert "ERRORS" not in space.dump()
    assert push(space.frozen(NOW + 9 * SECOND), **replaced) == QUEUED
    assert push(now, **{**replaced, "replace": 0}) == QUEUED


def test_a_delayed_successor_is_found_by_its_derived_key(space: Space) -> None:
    now = space.frozen()
    push(now, unique="taken")
    first = now.pop()
    later: dict[str, Any] = {"unique": "taken", "when": "at", "due": FUTURE}
    assert push(now, **later) == STORED
    (derived,) = space.delayed
    assert derived[:1] == b"\0"
    assert push(now, **later) == QUEUED
    assert push(now, **later, replace=1) == REPLACED
    space.ack((first.deadline, "a"))
    assert push(now, unique="taken") == QUEUED
    space.client.zadd(space.key("DELAYED"), dict.fromkeys(space.delayed, PAST))
    popped = space.pop()
    assert push(space) == QUEUED  # done: it is in flight
    space.ack((popped.deadline, popped.keys[0]))
    assert space.dump() == {}
    assert push(space) == STORED


def test_the_successor_is_replaced_not_what_waits_for_another_delivery(space: Space) -> None:
    later: dict[str, Any] = {"unique": "taken", "when": "at", "due": FUTURE}
    push(space, unique="taken")
    popped = space.pop()
    push(space, **later)
    space.nack((popped.deadline, 60 * SECOND, "a"))
    other = b'{"id":"a","n":2}'
    assert push(space, **later, replace=1, bodies={"a": other}) == REPLACED
    assert space.bodies.pop(b"a") == A
    assert other in space.bodies.values()
    space.clear()
    push(space, unique="taken")
    popped = space.pop()
    push(space, unique="taken")
    space.nack((popped.deadline, 60 * SECOND, "a"))
    assert push(space, **later, replace=1) == QUEUED


def test_a_note_is_believed_for_a_while_then_the_lists_are_searched(space: Space) -> None:
    push(space.frozen(), believed=SECOND)
    assert push(space.frozen(NOW + SECOND - 1)) == QUEUED
    late = space.frozen(NOW + SECOND)
    status, notes = push(late)
    assert status == b"search"
    assert push(late, known=b"+" + notes) == QUEUED
    assert push(space.frozen(NOW + DAY)) == QUEUED
    space.push(B)
    space.client.rpop(space.name)
    status, notes = push(space.frozen(NOW + 2 * DAY))
    assert status == b"search"
    assert push(space.frozen(NOW + 2 * DAY), known=b"-" + notes) == STORED
    assert space.ready == [B, A]


def test_a_search_of_other_notes_does_not_count(space: Space) -> None:
    push(space.frozen(), believed=SECOND)
    late = space.frozen(NOW + SECOND)
    _, notes = push(late)
    popped = late.pop()
    assert push(late, known=b"-" + notes) == QUEUED
    late = space.frozen(NOW + SECOND + 1)
    late.nack((popped.deadline, -1, "a"))
    status, others = push(late, known=b"-" + notes)
    assert (status, others != notes) == (b"search", True)
    assert space.ready == [A]
    # It returns once more: a search that began while it was in flight did not see it.
    later = space.frozen(NOW + 2 * SECOND)
    later.nack((later.pop().deadline, -1, "a"))
    assert push(later, known=b"-" + others)[0] == b"search"


def tick(space: Space, at: int, before: int, unique: str = "done", searched: bytes = b"") -> Any:
    args = ("s", at, before, 0, A, space.end, "", unique, "a", searched)
    status, _, _, _, *notes = space.call("worker/tick", *args)
    return status, *notes


@pytest.mark.parametrize("unique", ["done", "taken"])
def test_a_tick_is_left_out_while_its_message_is_queued(space: Space, unique: str) -> None:
    space = space.frozen()
    assert tick(space, NOW - 9, 0, unique) == (b"pushed",)
    assert push(space, unique=unique) == QUEUED
    assert tick(space, NOW - 8, NOW - 9, unique) == (b"queued",)
    assert space.dump()["TICKS"] == {b"s": b"%d" % (NOW - 8)}
    assert space.ready == [A]
    popped = space.pop()
    in_flight = (b"queued" if unique == "done" else b"pushed",)
    assert tick(space, NOW - 7, NOW - 8, unique) == in_flight
    space.pop(settled=[(popped.deadline, *popped.keys)])
    assert tick(space, NOW - 6, NOW - 7, unique) == (b"pushed",)
    assert space.ready == [A]


def test_a_tick_whose_message_was_pushed_long_ago_asks_for_a_search(space: Space) -> None:
    tick(space.frozen(), NOW, 0)
    later = NOW + DAY
    status, *notes = tick(space.frozen(later), later, NOW)
    assert status == b"search"
    assert space.dump()["TICKS"] == {b"s": b"%d" % NOW}
    assert tick(space.frozen(later), later, NOW, searched=b"+" + notes[0]) == (b"queued",)
    space.push(B)
    space.client.rpop(space.name)
    assert tick(space.frozen(later + 1), later + 1, later) == (b"queued",)
    _, *notes = tick(space.frozen(later + DAY), later + DAY, later + 1)
    searched = b"-" + notes[0]
    assert tick(space.frozen(later + DAY), later + DAY, later + 1, searched=searched) == (
        b"pushed",
    )
    assert space.ready == [B, A]


def test_without_lists_no_note_is_believed(space: Space) -> None:
    push(space)
    space.client.rpop(space.name)
    assert push(space) == STORED
    assert push(space) == QUEUED
    space.client.rpop(space.name)
    assert push(space, unique="taken") == STORED
    assert push(space, unique="taken") == QUEUED
    space.client.delete(space.name)
    space.hold(B)
    assert push(space, unique="taken") == QUEUED


def test_a_note_is_believed_if_the_message_may_have_been_moved_aside(space: Space) -> None:
    record(space)
    push(space.frozen(), believed=SECOND)
    body_ = space.client.rpop(space.name)
    space.client.zadd(space.key("GROUPS:PARKED"), {b"001x%016d" % NOW + body_: 0})
    assert push(space.frozen()) == QUEUED
    assert tick(space.frozen(), NOW, 0) == (b"queued",)
    status, notes = push(space.frozen(NOW + SECOND))
    assert status == b"search"
    assert push(space.frozen(NOW + SECOND), known=b"+" + notes) == QUEUED
    space.client.delete(space.key("GROUPS:PARKED"))
    assert push(space) == STORED


def test_an_id_twice_in_one_call_is_stored_once(space: Space) -> None:
    assert push(space, "a", "b", "a") == [*STORED, *STORED, *QUEUED]
    assert space.ready == [A, B]


def test_another_message_with_the_id_does_not_free_it(space: Space) -> None:
    other = b'{"id":"a","n":2}'
    space.push(other)
    push(space)
    first, second = space.pop(), space.pop()
    assert (first.bodies, first.keys) == ([other], [b"a"])
    assert second.keys[0].startswith(b"\0a\0")
    space.ack((first.deadline, first.keys[0]))
    assert push(space) == QUEUED
    space.ack((second.deadline, second.keys[0]))
    assert space.dump() == {}


def test_a_pop_that_finds_no_message_keeps_notes_of_what_is_held(space: Space) -> None:
    push(space)
    space.client.delete(space.name)
    space.hold(A)
    space.lease("b")
    space.client.hset(space.key("NOTES"), ":b", "=")
    assert space.pop().status == "empty"
    assert set(space.named) == {b"a", b"b"}
    space.client.delete(space.key("HELD"), space.key("CLAIM:<group>:<batch>"))
    space.pop()
    assert set(space.named) == {b"b"}


def test_a_message_that_is_too_large_for_a_consumer_frees_its_id(space: Space) -> None:
    space.hold(B)  # so that a list exists
    for unique in ("done", "taken"):
        push(space, unique=unique)
        space.pop(max_body=1)
        assert push(space, unique=unique) == STORED
        space.pop(max_body=1)
    assert "NOTES" not in space.dump()


@pytest.mark.parametrize("unique", ["done", "taken"])
def test_a_dead_letter_stays_while_another_of_its_id_is_queued(space: Space, unique: str) -> None:
    push(space, unique=unique)
    popped = space.pop(max_receives=1)
    space.nack((popped.deadline, 0, "a"), max_receives=1)
    ((entry, _),) = space.client.xrange(space.key("DEAD"))
    push(space, unique=unique)
    assert space.call("redrive", 1, "", 0) == [0, 1, entry, entry]
    assert space.call("redrive", 1, "", 0, entry) == [0, 1, b"", entry]
    assert space.call("redrive", 1, "", 1, entry)[0] == 1
    assert space.ready == [A]
    (derived,) = space.delayed
    assert derived[:1] == b"\0"
    space.client.zadd(space.key("DELAYED"), {derived: PAST})
    popped = space.pop()
    space.ack((popped.deadline, popped.keys[0]))
    assert push(space, unique=unique) == QUEUED


def test_what_was_redriven_keeps_its_id(space: Space) -> None:
    for _ in range(2):
        push(space)
        popped = space.pop()
        space.reject((popped.deadline, "a"))
    *_, (last, _) = space.client.xrange(space.key("DEAD"))
    assert space.call("redrive", 9, "", 0) == [1, 2, last, last]
    assert push(space) == QUEUED
    space.client.delete(*map(space.key, ("DELAYED", "CONTEXT", "NOTES")))
    space.lease("a")  # by a plain push
    assert space.call("redrive", 9, "", 0) == [0, 1, last, last]


def test_ids_that_pop_would_not_use_are_refused(space: Space) -> None:
    for id in (b"", b"\0a", b"x" * 513):
        head = ("done", 0, DAY, "now", 0, "right")
        with pytest.raises(Exception, match="ACKQ_ARGUMENT"):
            space.call("push_unique", *head, id, A, "")
