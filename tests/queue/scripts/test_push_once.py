"""push_once: messages, one a marker and window."""

from typing import Any

import pytest

from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import FUTURE, NOW, PAST, SECOND, Space, Value, body


def push_once(
    space: Space,
    id: str = "a",
    when: str = "now",
    due: Value = 0,
    window: Value = 60_000,
    key: Value | None = None,
    raw: bytes | None = None,
) -> Any:
    raw = body(id) if raw is None else raw
    message = (id, raw, id if key is None else key)
    _, *row = space.call("push_once", window, when, due, space.end, *message)
    return row


def push_some(space: Space, *pushed: tuple[str, str], when: str = "now", due: Value = 0) -> Any:
    """Push messages with these ids under these markers, and return the whole reply."""
    messages = [value for id, _ in pushed for value in (id, body(id), id)]
    markers = [f"DEDUP:{marker}" for _, marker in pushed]
    keys = [space.key(each) for each in ("", "CONTEXT", "DELAYED", "HANDOFF", *markers)]
    text = read(space.directory, "push_once")
    return space.client.eval(text, len(keys), *keys, 60_000, when, due, space.end, *messages)


def marker(space: Space) -> str:
    """Return the suffix of the marker's key as the header names it."""
    return parse(read(space.directory, "push_once")).keys[-1].suffix


def test_the_first_push_is_stored_and_marked(space: Space) -> None:
    assert push_once(space) == [1, b"a"]
    assert space.dump() == {"": [body("a")], marker(space): b"a", "EXPIRES": [marker(space)]}


def test_the_message_goes_where_every_push_goes(space: Space) -> None:
    space.push(body("first"))
    push_once(space)
    assert space.ready == [body("first"), body("a")]


def test_a_second_push_stores_nothing_and_returns_the_first_id(space: Space) -> None:
    push_once(space)
    before = space.dump()
    assert push_once(space, "b") == [0, b"a"]
    assert push_once(space, "b", "at", FUTURE) == [0, b"a"]
    assert space.dump() == before


def test_a_message_that_was_acked_is_not_pushed_again(space: Space) -> None:
    push_once(space)
    popped = space.pop()
    space.ack((popped.deadline, "a"))
    assert push_once(space) == [0, b"a"]
    assert space.ready == []


def test_the_marker_lives_for_the_window_and_no_longer(space: Space) -> None:
    push_once(space, window=60_000)
    assert 59_000 < space.client.pttl(space.key(marker(space))) <= 60_000
    space.client.delete(space.key(marker(space)))  # as it expires
    assert push_once(space) == [1, b"a"]
    assert space.ready == [body("a"), body("a")]


def test_only_the_marker_expires(space: Space) -> None:
    push_once(space)
    space.client.delete(space.key(marker(space)))
    push_once(space, "b", "at", FUTURE)
    assert space.dump()["EXPIRES"] == [marker(space)]


def test_a_message_without_an_id_is_marked_too(space: Space) -> None:
    assert push_once(space, "", raw=b"no id") == [1, b""]
    assert push_once(space, "", raw=b"no id") == [0, b""]
    assert space.ready == [b"no id"]


def test_a_scheduled_push_is_stored_among_the_delayed(space: Space) -> None:
    assert push_once(space.frozen(), "a", "delay", 5 * SECOND) == [1, b"a"]
    dump = space.dump()
    assert dump["DELAYED"] == {b"a": NOW + 5 * SECOND}
    assert dump["CONTEXT"] == {b"a": body("a")}
    assert dump.keys() == {"DELAYED", "CONTEXT", marker(space), "EXPIRES"}


def test_an_instant_is_taken_as_it_is(space: Space) -> None:
    push_once(space, "a", "at", PAST)
    assert space.delayed == {b"a": PAST}


def test_a_delay_ends_before_scores_lose_their_exactness(space: Space) -> None:
    push_once(space, "a", "delay", 2**53 - 1)
    assert space.delayed == {b"a": 2**53 - 1}


def test_a_key_that_is_taken_is_replaced_and_both_bodies_survive(space: Space) -> None:
    space.lease("a", b"held")
    assert push_once(space.frozen(), "a", "at", FUTURE) == [1, b"a"]
    derived = b"\0a\0%d:%d:0001" % (FUTURE, NOW)
    assert space.bodies == {b"a": b"held", derived: body("a")}
    assert space.delayed == {derived: FUTURE}
    assert space.leases == {b"a": FUTURE}


@pytest.mark.parametrize("key", [b"", b"\0x"])
def test_no_key_and_a_key_that_looks_derived_are_derived(space: Space, key: bytes) -> None:
    space.client.hset(space.key("CONTEXT"), b"\0%d:%d:0001" % (FUTURE, NOW), "taken")
    push_once(space.frozen(), "a", "at", FUTURE, key=key)
    assert space.delayed == {b"\0%d:%d:0002" % (FUTURE, NOW): FUTURE}


@pytest.mark.parametrize(("when", "wrong"), [("now", ""), ("at", "DELAYED"), ("at", "CONTEXT")])
def test_what_could_not_be_stored_is_not_marked(space: Space, when: str, wrong: str) -> None:
    space.client.set(space.key(wrong), "of another type")
    before = space.dump()
    with pytest.raises(Exception, match="WRONGTYPE"):
        push_once(space, "a", when)
    assert space.dump() == before


def test_messages_for_one_time_keep_the_order_of_their_pushes(space: Space) -> None:
    for id in ("z", "y", "x"):
        space.client.delete(space.key("DEDUP:<marker>"))
        push_once(space, id, "at", FUTURE)
    assert space.client.zrange(space.key("DELAYED"), 0, -1) == [b"z", b"y", b"x"]


def test_each_message_of_a_call_has_a_marker(space: Space) -> None:
    push_some(space, ("a", "one"))
    reply = push_some(space, ("b", "one"), ("c", "two"), ("d", "three"), ("e", "two"))
    assert reply == [0, 0, b"a", 1, b"c", 1, b"d", 0, b"c"]
    assert space.ready == [body("a"), body("c"), body("d")]


def test_messages_of_a_call_for_later_keep_their_order(space: Space) -> None:
    push_some(space, ("b", "one"), ("a", "two"), ("b", "three"), when="at", due=FUTURE)
    assert [due - FUTURE for due in space.delayed.values()] == [0, 1, 2]
    assert [space.bodies[key] for key in space.delayed] == [body("b"), body("a"), body("b")]


def test_a_marker_of_another_type_is_an_error_before_anything_is_stored(space: Space) -> None:
    space.client.lpush(space.key("DEDUP:two"), "of another type")
    before = space.dump()
    with pytest.raises(Exception, match="WRONGTYPE"):
        push_some(space, ("a", "one"), ("b", "two"))
    assert space.dump() == before


def test_a_push_to_the_front_of_a_list_goes_before_it(space: Space) -> None:
    space.push(body("ready"))
    assert push_some(space, ("a", "one"), ("b", "two"), when="front") == [0, 1, b"a", 1, b"b"]
    assert space.front == [body("a"), body("b"), body("ready")]


def test_a_push_to_the_front_of_an_empty_list_wakes_consumers(space: Space) -> None:
    space.hand_over(body("handed over"))
    push_some(space, ("x", "one"))
    space.client.delete(space.key(""))
    reply = push_some(space, ("x", "one"), ("a", "two"), ("b", "three"), when="front")
    assert reply == [2, 0, b"x", 1, b"a", 1, b"b"]
    assert space.ready == [body("a"), body("b")]
