"""A dead letter stops its group, until it is redriven or dropped, or the group is resumed."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ResponseError

from tests.queue.scripts.grouped import busy, message, parked, pop, record, turns
from tests.queue.scripts.space import MIB, NOW, PAST, SECOND, Popped, Space


def ids(popped: Popped) -> list[str]:
    return [json.loads(body)["id"] for body in popped.bodies]


def start(space: Space, *names: str, in_flight: int = 1) -> None:
    """Begin with messages of the groups that their ids begin with."""
    record(space, in_flight, on_dead="stop")
    space.push(*(message(name, name[0]) for name in names))


def letters(space: Space) -> dict[str, bytes]:
    """Return the ids of dead messages, with those of their dead letters, the oldest first."""
    entries = space.client.xrange(space.key("DEAD"))
    return {json.loads(fields[b"body"])["id"]: id for id, fields in entries if fields[b"body"]}


def stopped(space: Space) -> dict[bytes, list[bytes]]:
    """Return the dead letters that stop each group, and check that both keys agree."""
    found = space.client.hgetall(space.key("GROUPS:STOPPED"))
    places = space.client.hgetall(space.key("GROUPS:LETTERS"))
    assert {id: tag for tag, ids in found.items() for id in ids.split()} == {
        id: place[16:] for id, place in places.items()
    }
    return {tag: ids.split() for tag, ids in found.items()}


def leave(space: Space, held: Popped, key: str) -> None:
    """Let a lease end."""
    space.client.zadd(space.key("BACKUP"), {key: PAST})


#: Makes a dead letter of the leased message a1, and how the pop after it is called.
DEATHS: dict[str, tuple[Callable[[Space, Popped], object], dict[str, Any]]] = {
    "reject": (lambda space, held: space.reject((held.deadline, "a1")), {}),
    "nack": (lambda space, held: space.nack((held.deadline, 0, "a1"), max_receives=1), {}),
    "cancel": (lambda space, held: space.call("cancel", 1, "", "a1"), {}),
    "pop": (lambda space, held: leave(space, held, "a1"), {"max_receives": 1}),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_dead_letter_stops_its_group(space: Space, death: str) -> None:
    start(space, "a1", "a2", "b1", "b2", "a3")
    die, how = DEATHS[death]
    held = pop(space, 1)
    assert ids(pop(space, 1)) == ["b1"]
    die(space, held)
    assert pop(space, 5, **how).messages == []
    assert parked(space) == {"a": ["a2", "a3"], "b": ["b2"]}
    assert stopped(space) == {b"a": [letters(space)["a1"]]}
    assert (busy(space), turns(space)) == ({"b": 1}, [])
    assert [count for *_, count in space.dead] == [1]
    # The redriven message comes first again.
    assert space.call("redrive", 1, "", 0)[0] == 1
    assert stopped(space) == {}
    first = pop(space, 1)
    assert (ids(first), first.counts) == (["a1"], [1])
    assert ids(pop(space, 5, settled=[(first.deadline, "a1")])) == ["a2", "a3"]


def test_only_the_groups_of_dead_letters_stop(space: Space) -> None:
    record(space)
    space.push(message("a1", "a"), message("a2", "a"))
    held = pop(space, 1)
    space.reject((held.deadline, "a1"))
    assert stopped(space) == {}  # the record does not say that they stop
    assert ids(pop(space, 1)) == ["a2"]
    record(space, on_dead="stop")
    space.push(message("none"), message("b1", "b"))
    held = pop(space, 1)
    space.reject((held.deadline, "none"))
    assert stopped(space) == {}
    space.delay("later", message("later", "c"))
    assert space.call("cancel", 0, "", "later")[0] == 1
    assert stopped(space) == {}  # it had not joined its group yet


def test_a_message_that_is_too_large_stops_its_group_when_its_turn_comes(space: Space) -> None:
    start(space, "a1")
    space.push(message("a2", "a", 500), message("b1", "b"), message("a3", "a"))
    first = pop(space, 5, max_body=200)
    assert ids(first) == ["a1", "b1"]
    assert letters(space).keys() == {"a2"}
    assert pop(space, 5, max_body=200, settled=[(first.deadline, "a1", "b1")]).messages == []
    assert parked(space) == {"a": ["a3"]}
    space.push(message("c1", "c", 500), message("c2", "c"))
    assert pop(space, 5, max_body=200).messages == []
    assert stopped(space).keys() == {b"a", b"c"}
    space.call("redrive", 9, "", 0)
    assert ids(pop(space, 9)) == ["a2", "c1", "a3", "c2"]


def test_a_group_that_stops_in_its_turn_takes_no_other_one_out_of_the_turns(space: Space) -> None:
    record(space, on_dead="stop")
    space.push(*(message(f"{group}1", group) for group in "abc"))
    first = pop(space, 3)
    space.push(message("a2", "a", 500), message("b2", "b"), message("c2", "c"))
    assert pop(space, 3).messages == []
    assert parked(space).keys() == {"a", "b", "c"}
    settled = [(first.deadline, "a1", "b1", "c1")]
    assert ids(pop(space, 1, max_body=200, settled=settled)) == ["b2"]
    assert stopped(space).keys() == {b"a"}
    assert ids(pop(space, 1, max_body=200)) == ["c2"]


def test_a_parked_message_that_is_too_large_stops_its_group(space: Space) -> None:
    start(space, "a1")
    space.push(message("a2", "a", 500), message("a3", "a"))
    first = pop(space, 1, max_body=200)
    assert parked(space) == {"a": ["a2", "a3"]}
    assert pop(space, 1, max_body=200, settled=[(first.deadline, "a1")]).messages == []
    assert stopped(space) == {b"a": [letters(space)["a2"]]}
    assert parked(space) == {"a": ["a3"]}


def test_a_message_whose_body_is_missing_stops_its_group(space: Space) -> None:
    start(space, "a1", "a2")
    pop(space, 1)
    space.client.hdel(space.key("CONTEXT"), "a1")
    space.client.zadd(space.key("BACKUP"), {"a1": PAST})
    assert pop(space, 5).messages == []
    [(_, entries)] = stopped(space).items()
    assert space.call("drop", *entries) == 1
    assert ids(pop(space, 5)) == ["a2"]


@pytest.mark.parametrize("zset", ["BACKUP", "DELAYED"])
def test_an_audit_leaves_a_message_whose_body_is_missing_to_the_next_pop(
    space: Space, zset: str
) -> None:
    start(space, "a1", "a2")
    held = pop(space, 1)
    if zset == "DELAYED":
        space.nack((held.deadline, SECOND, "a1"))
    space.client.hdel(space.key("CONTEXT"), "a1")
    space.client.hset(space.key("RECEIVES"), "a1", 2)
    assert pop(space, 5).messages == []
    assert busy(space) == {"a": 1}
    for walk in ("receives", zset.lower(), "receives"):
        found = [b"body missing", b"a1"] if walk == zset.lower() else []
        assert space.call("audit_scan", walk, 0, 1) == [b"0", 1, *found]
    assert (space.dead, stopped(space)) == ([], {})
    assert pop(space, 5).messages == []
    assert space.dead == [(b"a1", b"", "body missing", 2)]
    assert stopped(space).keys() == {b"a"}
    assert busy(space) == {}


def test_dropping_a_dead_letter_lets_its_group_go_on(space: Space) -> None:
    start(space, "a1", "a2")
    held = pop(space, 2)
    space.reject((held.deadline, "a1"))
    space.reject((held.deadline, "a2"))
    first, second = letters(space).values()
    space.push(message("a3", "a"))
    assert stopped(space) == {b"a": [first, second]}
    assert space.call("drop", "1-1", first) == 1
    assert stopped(space) == {b"a": [second]}
    assert pop(space, 5).messages == []
    assert space.call("drop", second) == 1
    assert stopped(space) == {}
    assert ids(pop(space, 5)) == ["a3"]


def test_a_redriven_message_waits_for_the_other_dead_letters(space: Space) -> None:
    start(space, "a1", "a2", "a3")
    held = pop(space, 2)
    space.reject((held.deadline, "a1", "a2"))
    first, second = letters(space).values()
    assert space.call("redrive", 1, "", 0, second)[0] == 1
    assert pop(space, 5).messages == []
    assert parked(space) == {"a": ["a2", "a3"]}
    assert space.call("redrive", 1, "", 0, first)[0] == 1
    assert ids(pop(space, 5)) == ["a1", "a2", "a3"]


def test_a_resumed_group_goes_on_without_its_dead_letters(space: Space) -> None:
    start(space, "a1", "a2", "a3")
    held = pop(space, 2)
    space.reject((held.deadline, "a1", "a2"))
    assert space.call("groups/limit", "b", -1) == 0
    assert stopped(space).keys() == {b"a"}
    assert space.call("groups/limit", "a", -1) == 2
    assert stopped(space) == {}
    assert len(letters(space)) == 2
    held = pop(space, 1)
    assert ids(held) == ["a3"]
    space.call("redrive", 1, "", 0)
    assert pop(space, 1).messages == []  # behind what is there
    assert ids(pop(space, 1, settled=[(held.deadline, "a3")])) == ["a1"]


@pytest.mark.parametrize("in_flight", [1, 3])
def test_messages_of_a_stopped_group_that_come_back_wait_in_their_places(
    space: Space, in_flight: int
) -> None:
    start(space, "a1", "a2", "a3", "a4", in_flight=in_flight)
    held = pop(space, 3)
    space.reject((held.deadline, "a1"))
    space.nack((held.deadline, 0, "a2"))
    leave(space, held, "a3")
    space.client.hset(space.key("RECEIVES"), "a3", 4)
    space.client.hset(space.key("COUNTERS"), "since", NOW)
    space.push(message("none"))
    assert ids(pop(space, 1)) == ["none"]
    assert parked(space) == {"a": ["a2", "a3", "a4"]}
    assert (busy(space), space.client.exists(space.key("GROUPS:FLIGHT"))) == ({}, 0)
    assert space.bodies.keys() == {b"none"}
    assert space.client.exists(space.key("GROUPS:RUNS")) == 0
    assert space.client.hget(space.key("COUNTERS"), "returned") == b"1"
    space.call("redrive", 1, "", 0)
    seen, counts = [], []
    while (taken := pop(space, 1)).messages:
        seen += ids(taken)
        counts += taken.counts
        space.call("ack", taken.deadline, 1, *taken.keys)
    assert (seen, counts) == (["a1", "a2", "a3", "a4"], [1, 2, 5, 1])


def test_a_later_message_of_a_run_comes_behind_the_redriven_one(space: Space) -> None:
    start(space, "a1", "a2", "a3")
    held = pop(space, 2)
    space.reject((held.deadline, "a1"))
    space.call("redrive", 1, "", 0)
    assert pop(space, 1).messages == []  # a2 is leased
    leave(space, held, "a2")
    assert ids(pop(space, 5)) == ["a1", "a2", "a3"]


def test_equal_messages_of_one_group_keep_places_of_their_own(space: Space) -> None:
    record(space, 2, on_dead="stop")
    equal = b'{"customer":"a"}'
    space.push(equal, equal, message("a3", "a"))
    held = pop(space, 2)
    assert held.bodies == [equal, equal]
    space.reject((held.deadline, *held.keys))
    assert len(set(space.client.hvals(space.key("GROUPS:LETTERS")))) == 2
    space.call("redrive", 2, "", 0)
    assert space.client.zcard(space.key("GROUPS:PARKED")) == 3
    assert pop(space, 5).bodies == [equal, equal]


def test_no_place_is_given_twice_while_a_dead_letter_has_one(space: Space) -> None:
    start(space, "a1")
    held = pop(space, 1)
    space.reject((held.deadline, "a1"))
    before = space.client.hget(space.key("GROUPS:BUSY"), "")
    assert pop(space, 1).status == "empty"
    assert space.call("groups/purge", 0) == 0
    assert space.client.hget(space.key("GROUPS:BUSY"), "") == before
    assert stopped(space).keys() == {b"a"}
    assert space.call("groups/purge", 1) == 0
    assert space.dump().keys() == {"RECORD", "DEAD"}


def test_a_redrive_and_a_drop_wake_a_consumer(space: Space) -> None:
    start(space, "a1", "a2", "b1", "b2")
    held = pop(space, 4)
    space.nack((held.deadline, 0, "a2", "b2"))
    space.reject((held.deadline, "a1", "b1"))
    assert pop(space, 1).messages == []
    first, second = letters(space).values()
    space.client.set(space.key("WAITERS:LOOKS"), f"{NOW}:1.000", px=10_000)
    space.call("redrive", 1, "", 0, first)
    assert space.ready == [message("a1", "a")]
    assert ids(pop(space, 1)) == ["a1"]
    space.call("drop", second)
    assert space.ready == [message("b2", "b")]


def test_a_group_stopped_while_its_message_is_on_the_list_takes_it_back(space: Space) -> None:
    start(space, "a1", "a2", "a3", in_flight=2)
    held = pop(space, 2)
    pop(space, 1)
    space.client.set(space.key("WAITERS:LOOKS"), f"{NOW}:1.000", px=10_000)
    space.call("ack", held.deadline, 1, "a1")
    assert space.ready == [message("a3", "a")]
    space.reject((held.deadline, "a2"))
    assert pop(space, 1).messages == []
    assert (space.ready, parked(space)) == ([], {"a": ["a3"]})


def test_an_audit_finds_groups_whose_dead_letters_are_gone(space: Space) -> None:
    start(space, "a1", "a2", "b1")
    held = pop(space, 3)
    space.reject((held.deadline, "a1", "b1"))
    first, second = letters(space).values()
    space.client.xdel(space.key("DEAD"), first)
    pairs = ("a", first, "b", second)
    assert space.call("groups/letters", 0, *pairs) == [2, first]
    assert stopped(space) == {b"a": [first], b"b": [second]}
    assert space.call("groups/letters", 1, *pairs) == [2, first]
    assert stopped(space) == {b"b": [second]}
    assert space.call("groups/letters", 1, *pairs) == [2]


def test_one_call_of_the_audit_reads_a_mebibyte(space: Space) -> None:
    record(space, on_dead="stop")
    space.push(*(message(f"{of}1", of, MIB * 4 // 5) for of in "ab"))
    for _ in range(2):
        held = pop(space, 1)
        space.reject((held.deadline, *held.keys))
    pairs = [part for name, id in letters(space).items() for part in (name[0], id)]
    assert space.call("groups/letters", 0, *pairs * 3) == [2]


def test_the_record_and_its_dead_letters_are_forgotten_together(space: Space) -> None:
    start(space, "a1", "a2")
    held = pop(space, 1)
    space.reject((held.deadline, "a1"))
    while space.call("groups/drain", 1000):
        pass
    assert space.call("forget") == 1
    assert space.dump().keys() == {"", "DEAD"}


def test_what_stops_a_group_is_checked_before_anything_is_changed(space: Space) -> None:
    start(space, "a1")
    held = pop(space, 1)
    space.client.set(space.key("GROUPS:LETTERS"), "of another type")
    for call in (
        lambda: space.reject((held.deadline, "a1")),
        lambda: pop(space, 1, timeout=SECOND),
        lambda: space.call("redrive", 1, "", 0),
    ):
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            call()
    assert space.bodies.keys() == {b"a1"}
