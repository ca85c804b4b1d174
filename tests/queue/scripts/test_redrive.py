"""redrive: from dead to ready."""

import pytest

from tests.queue.scripts.space import FUTURE, MIB, NOW, SECOND, Space, body


def test_a_redriven_message_is_due_now_with_its_key_its_body_and_no_count(space: Space) -> None:
    entry = space.die("a", b"\xff not its id")
    space.client.hset(space.key("RECEIVES"), "a", 7)
    assert space.frozen().call("redrive", 10, "", 0) == [1, 1, entry.encode()]
    assert space.dump() == {
        "CONTEXT": {b"a": b"\xff not its id"},
        "DELAYED": {b"a": NOW - 100},
        "DEAD": [],
    }
    assert space.frozen().pop().counts == [1]


def test_no_failure_of_a_message_on_the_list_stays_without_its_count(space: Space) -> None:
    space.list_note("a", b"on the list", 1)
    space.note("a", b"on the list", b"1:1:why")
    space.die("a", body("a"))
    space.call("redrive", 10, "", 0)
    assert (space.receives, space.noted("a")) == ({}, [])


def test_the_oldest_are_redriven_first(space: Space) -> None:
    for key in ("a", "b", "c"):
        last = space.die(key, body(key))
    assert space.call("redrive", 2, "", 0)[:2] == [2, 2]
    assert space.delayed.keys() == {b"a", b"b"}
    assert space.dead == [(b"c", body("c"), "max receives", 3)]
    assert space.call("redrive", 2, "", 0) == [1, 1, last.encode()]


def test_a_redrive_goes_on_after_an_entry(space: Space) -> None:
    first, second, third = (space.die(key, body(key)) for key in ("a", "b", "c"))
    assert space.call("redrive", 10, first, 0) == [2, 2, third.encode()]
    assert [key for key, *_ in space.dead] == [b"a"]
    assert space.call("redrive", 10, second, 0) == [0, 0, second.encode()]


def test_only_the_named_entries_are_redriven(space: Space) -> None:
    first, second, third = (space.die(key, body(key)) for key in ("a", "b", "c"))
    assert space.call("redrive", 2, "", 0, third, first)[:2] == [2, 2]
    assert space.delayed.keys() == {b"a", b"c"}
    assert space.call("redrive", 2, "", 0, first, second)[:2] == [1, 2]


def test_a_redrive_happens_once(space: Space) -> None:
    entry = space.die("a", body("a"))
    assert space.call("redrive", 1, "", 0, entry)[0] == 1
    before = space.dump()
    assert space.call("redrive", 1, "", 0, entry)[0] == 0
    assert space.call("redrive", 10, "", 0)[0] == 0
    assert space.dump() == before


def test_a_key_that_is_taken_is_replaced_and_every_body_survives(space: Space) -> None:
    space.lease("a", b"held")
    space.delay("b", b"later")
    for key, raw in (("a", b"1"), ("a", b"2"), ("b", b"3"), ("", b"4")):
        space.die(key, raw)
    space.frozen().call("redrive", 10, "", 0)
    ids = (b"\0a", b"\0a", b"\0b", b"")
    derived = [b"%s\0%d:%04d" % (id, NOW, number) for number, id in enumerate(ids, 1)]
    assert space.bodies == {
        b"a": b"held",
        b"b": b"later",
        **dict(zip(derived, (b"1", b"2", b"3", b"4"), strict=True)),
    }
    assert space.delayed == {b"b": FUTURE, **{key: NOW - 100 + n for n, key in enumerate(derived)}}
    assert space.leases == {b"a": FUTURE}


def test_a_derived_key_never_collides_with_one_that_exists(space: Space) -> None:
    space.client.hset(space.key("CONTEXT"), b"\0%d:0001" % NOW, "taken")
    space.die("", b"body")
    space.frozen().call("redrive", 1, "", 0)
    assert space.bodies == {b"\0%d:0001" % NOW: b"taken", b"\0%d:0002" % NOW: b"body"}


def test_what_has_no_body_stays_and_does_not_stop_the_others(space: Space) -> None:
    space.die("gone", b"", reason="body missing")
    space.client.xadd(space.key("DEAD"), {"key": "odd"})
    last = space.die("a", body("a"))
    assert space.call("redrive", 10, "", 0) == [1, 3, last.encode()]
    assert len(space.dump()["DEAD"]) == 2
    assert space.delayed.keys() == {b"a"}


def test_an_empty_body_can_be_redriven(space: Space) -> None:
    space.die("a", b"")
    assert space.call("redrive", 10, "", 0)[0] == 1
    assert space.bodies == {b"a": b""}


def test_one_call_redrives_a_mebibyte_and_returns_where_it_stopped(space: Space) -> None:
    entries = [space.die(str(number), b"x" * (5 * MIB // 8)) for number in range(3)]
    assert space.call("redrive", 10, "", 0) == [2, 2, entries[1].encode()]
    assert space.call("redrive", 10, entries[1], 0)[0] == 1


def test_named_entries_beyond_a_mebibyte_are_left_to_the_next_call(space: Space) -> None:
    entries = [space.die(str(number), b"x" * (5 * MIB // 8)) for number in range(3)]
    assert space.call("redrive", 3, "", 0, *entries)[:2] == [2, 2]
    assert space.call("redrive", 1, "", 0, *entries[2:])[:2] == [1, 1]


@pytest.mark.parametrize("named", [False, True])
def test_one_call_redrives_a_mebibyte_of_errors(space: Space, named: bool) -> None:
    fields = {"body": b"x", "errors": b"1:7:" + b"x" * (5 * MIB // 8)}
    entries = [space.client.xadd(space.key("DEAD"), {**fields, "key": key}) for key in "abc"]
    assert space.call("redrive", 10, "", 0, *(entries if named else []))[:2] == [2, 2]


@pytest.mark.parametrize("behind", ["", "HANDOFF", "HELD"])
def test_the_id_of_a_message_that_a_bare_rpop_took_is_free_once_the_lists_are_empty(
    space: Space, behind: str
) -> None:
    space.call("push_unique", "done", 0, 9 * SECOND, "now", 0, space.end, "a", body("a"), "")
    space.reject((space.pop().deadline, "a"))
    space.call("push_unique", "done", 0, 9 * SECOND, "now", 0, space.end, "a", body("a"), "")
    key = space.key(behind)
    if behind == "HELD":
        space.client.zadd(key, {"list": FUTURE})
    else:
        space.client.lpush(key, body("b"))
    assert space.client.rpop(space.key("")) == body("a")
    assert space.call("redrive", 1, "", 0)[0] == 0
    space.client.delete(key)
    assert space.call("redrive", 1, "", 0)[0] == 1


def test_a_queue_without_dead_letters_has_none_to_redrive(space: Space) -> None:
    assert space.call("redrive", 10, "", 0) == [0, 0, b""]
    assert space.dump() == {}


def test_a_message_that_was_rejected_as_body_missing_can_be_redriven(space: Space) -> None:
    space.die("a", body("a"), reason="body missing")
    assert space.call("redrive", 10, "", 0)[0] == 1


def test_an_entry_that_is_no_stream_id_is_refused_before_any_write(space: Space) -> None:
    entry = space.die("a", body("a"))
    before = space.dump()
    with pytest.raises(Exception, match=r"ACKQ_ARGUMENT|Invalid stream ID"):
        space.call("redrive", 2, "", 0, entry, "no stream id")
    assert space.dump() == before


def test_one_call_looks_at_a_hundred(space: Space) -> None:
    entries = [space.die(str(number), b"x") for number in range(202)]
    assert space.call("redrive", 1000, "", 0)[:2] == [100, 100]
    assert space.call("redrive", 101, "", 0, *entries[100:201])[:2] == [100, 100]
    assert space.call("redrive", 1000, "", 0)[:2] == [2, 2]
