"""pop: settle, then take."""

import json

import pytest

from tests.queue.scripts.space import (
    FUTURE,
    MIB,
    NOW,
    PAST,
    SECOND,
    Space,
    body,
    listed_field,
)

HOUR = 3600 * SECOND


# Taking from the ready list.


def test_a_message_leaves_the_list_and_gains_a_lease_and_nothing_else(space: Space) -> None:
    space.push(body("a"), body("b"))
    popped = space.pop()
    assert popped.messages == [(b"a", body("a"))]
    assert popped.counts == [1]
    assert popped.refused == []
    assert space.dump() == {
        "": [body("b")],
        "BACKUP": {b"a": popped.deadline},
        "CONTEXT": {b"a": body("a")},
    }


def test_the_last_message_leaves_no_empty_key_behind(space: Space) -> None:
    space.push(body("a"))
    popped = space.pop()
    space.ack((popped.deadline, "a"))
    assert space.dump() == {}


def test_messages_are_taken_in_the_order_of_their_push(space: Space) -> None:
    ids = [f"m{number:03d}" for number in range(40)]  # more than two slices of a take
    space.push(*map(body, ids))
    assert space.pop(37).keys == [id.encode() for id in ids[:37]]
    assert space.ready == [body(id) for id in ids[37:]]
    assert space.pop(37).keys == [id.encode() for id in ids[37:]]


def test_a_thousand_messages_are_taken_in_one_call(space: Space) -> None:
    space.push(*(body(str(number)) for number in range(1001)))
    popped = space.pop(1000)
    assert popped.keys == [str(number).encode() for number in range(1000)]
    assert space.leases == dict.fromkeys(popped.keys, popped.deadline)
    assert space.bodies == dict(popped.messages)
    assert space.ready == [body("1000")]


def test_a_deadline_is_exact_to_the_microsecond(space: Space) -> None:
    space.push(body("a"))
    popped = space.frozen(NOW + 1).pop(timeout=12 * HOUR, jitter=65535)
    assert popped.deadline == NOW + 1 + 12 * HOUR + 65535
    assert space.leases == {b"a": popped.deadline}


def test_every_message_of_a_batch_has_the_same_receipt(space: Space) -> None:
    space.push(body("a"), body("b"))
    popped = space.pop(2)
    assert space.leases == {b"a": popped.deadline, b"b": popped.deadline}


def test_the_handed_over_are_taken_before_the_listed(space: Space) -> None:
    space.push(body("c"), body("d"))
    space.hand_over(body("a"), body("b"))
    assert space.pop(3).keys == [b"a", b"b", b"c"]
    assert space.dump()[""] == [body("d")]
    assert "HANDOFF" not in space.dump()


# Nothing to take.


def test_an_empty_queue_is_empty_and_stays_so(space: Space) -> None:
    popped = space.pop()
    assert (popped.status, popped.wait) == ("empty", -1)
    assert space.dump() == {}


@pytest.mark.parametrize(
    ("deadline", "due", "wait"),
    [(7, None, 7), (None, 8, 8), (7, 8, 7), (8, 7, 7), (1, None, 1)],
)
def test_an_empty_queue_returns_when_to_look_again(
    space: Space, deadline: int | None, due: int | None, wait: int
) -> None:
    if deadline:
        space.lease("a", deadline=NOW + deadline)
        space.lease("later", deadline=NOW + deadline + 1)
    if due:
        space.delay("b", due=NOW + due)
    before = space.dump()
    popped = space.frozen().pop()
    assert (popped.status, popped.wait) == ("empty", wait)
    assert space.dump() == before


@pytest.mark.parametrize("side", [False, True], ids=["the short path", "the long path"])
def test_a_consumer_that_waits_learns_that_it_took_the_last_message(
    space: Space, side: bool
) -> None:
    for key in "abc":
        space.push(body(key))
    if side:
        space.delay("later", due=FUTURE)
    assert [space.pop(waited=waited).status for waited in (0, 0, 5)] == ["ok", "ok", "last"]
    assert space.pop(waited=0).status == "empty"
    space.push(body("d"))
    assert space.pop(waited=-1).status == "ok"


@pytest.mark.parametrize("left", ["ready", "handoff", "expired", "due"])
def test_it_was_not_the_last_message_if_another_can_be_taken(space: Space, left: str) -> None:
    match left:
        case "handoff":
            space.hand_over(body("a"), body("b"))
        case "ready":
            space.delay("later", due=FUTURE)
            space.push(body("a"))
            space.push(body("b"))
        case "expired":
            space.lease("a", deadline=PAST)
            space.lease("b", deadline=PAST + 1)
        case "due":
            space.delay("a", due=PAST)
            space.delay("b", due=PAST + 1)
    popped = space.pop(waited=0)
    assert (popped.status, popped.keys) == ("ok", [b"a"])
    assert space.pop(waited=0).status == "last"


def test_consumers_that_wait_are_counted_by_the_time_between_their_looks(space: Space) -> None:
    def look(at: float, waited: float) -> int | None:
        popped = space.frozen(NOW + round(at * SECOND)).pop(waited=round(waited * SECOND))
        assert popped.status == "empty"
        return popped.waiters

    assert [look(0, 1) for _ in range(10)] == list(range(1, 11))
    assert [look(0, 0.1) for _ in range(10)] == [11] * 10
    assert look(0, 500) == 511
    assert look(1, 0) == 188  # 511 / e
    assert look(-9, 0) == 511  # the clock was set back
    assert look(8, 0) == 1
    assert 0 < space.client.pttl(space.key("WAITERS:LOOKS")) <= 10_000


def test_a_consumer_that_did_not_wait_writes_no_look(space: Space) -> None:
    assert (space.pop().waiters, space.pop(waited=0).waiters) == (None, 0)
    assert space.dump() == {}


@pytest.mark.parametrize("held", ["list", "string"])
def test_a_key_of_somebody_else_is_not_overwritten_by_looks(space: Space, held: str) -> None:
    key = space.key("WAITERS:LOOKS")
    if held == "string":
        space.client.set(key, "17 boats")
        assert space.pop(waited=SECOND).waiters == 1
        return
    space.client.rpush(key, "boat")
    assert space.pop(waited=SECOND).waiters == 0
    assert space.client.lrange(key, 0, -1) == [b"boat"]


# What came back: expired leases and due messages.


def test_a_lease_that_runs_is_not_taken(space: Space) -> None:
    space.lease("a", deadline=FUTURE)
    before = space.dump()
    assert space.pop().status == "empty"
    assert space.dump() == before


def test_a_lease_is_over_at_its_deadline_and_not_a_microsecond_before(space: Space) -> None:
    space.lease("a", deadline=NOW)
    assert space.frozen(NOW - 1).pop().status == "empty"
    assert space.frozen(NOW).pop().keys == [b"a"]


def test_a_message_is_due_at_its_time_and_not_a_microsecond_before(space: Space) -> None:
    space.delay("a", due=NOW)
    assert space.frozen(NOW - 1).pop().status == "empty"
    assert space.frozen(NOW).pop().keys == [b"a"]


def test_a_microsecond_is_a_lease(space: Space) -> None:
    space.push(body("a"))
    assert space.frozen(NOW).pop(timeout=1).deadline == NOW + 1
    assert space.frozen(NOW).pop().status == "empty"
    assert space.frozen(NOW + 1).pop().keys == [b"a"]


def test_what_came_back_is_taken_first_the_oldest_first(space: Space) -> None:
    space.push(body("listed"))
    space.hand_over(body("handed"))
    space.delay("due-2", due=PAST + 2)
    space.delay("due-1", due=PAST + 1)
    space.lease("expired-2", deadline=PAST + 4)
    space.lease("expired-1", deadline=PAST + 3)
    popped = space.pop(6)
    assert popped.keys == [b"expired-1", b"expired-2", b"due-1", b"due-2", b"handed", b"listed"]
    assert popped.counts == [2, 2, 1, 1, 1, 1]
    assert space.leases == dict.fromkeys(popped.keys, popped.deadline)
    assert space.delayed == {}


def test_an_expired_message_is_leased_in_place_with_key_body_and_count(space: Space) -> None:
    space.lease("a", b"\xff not its id", deadline=PAST, count=4)
    popped = space.pop()
    assert popped.messages == [(b"a", b"\xff not its id")]
    assert popped.counts == [5]
    assert space.dump() == {
        "BACKUP": {b"a": popped.deadline},
        "CONTEXT": {b"a": b"\xff not its id"},
        "RECEIVES": {b"a": b"5"},
    }


def test_the_second_receive_is_the_first_to_be_written_down(space: Space) -> None:
    space.push(body("a"))
    space.pop(timeout=1)
    assert space.receives == {}
    assert space.pop(timeout=1).counts == [2]
    assert space.receives == {b"a": 2}
    assert space.pop(timeout=1).counts == [3]
    assert space.receives == {b"a": 3}


def test_a_delayed_message_that_was_never_received_is_received_once(space: Space) -> None:
    space.delay("a", due=PAST)
    popped = space.pop()
    assert popped.counts == [1]
    assert space.dump() == {"BACKUP": {b"a": popped.deadline}, "CONTEXT": {b"a": body("a")}}


def test_a_delayed_message_that_was_received_before_keeps_its_count(space: Space) -> None:
    space.delay("a", due=PAST, count=1)
    assert space.pop().counts == [2]
    assert space.receives == {b"a": 2}


def test_the_counts_of_a_batch_belong_to_their_messages(space: Space) -> None:
    space.lease("a", deadline=PAST, count=7)
    space.delay("b", due=PAST)
    space.delay("c", due=PAST + 1, count=2)
    space.push(body("d"), body("e"))
    space.list_note("e", body("e"), 4)
    popped = space.pop(5)
    assert popped.keys == [b"a", b"b", b"c", b"d", b"e"]
    assert popped.counts == [8, 1, 3, 1, 5]
    assert space.receives == {b"a": 8, b"c": 3, b"e": 5}


def test_a_lease_taken_again_clears_the_extension_of_the_former_holder(space: Space) -> None:
    space.lease("a", deadline=PAST, extended=f"7:{PAST}")
    popped = space.pop()
    assert space.extended == {}
    assert space.ack((7, "a")) == [0, 1]
    assert space.ack((popped.deadline, "a")) == [1]


def test_a_body_that_is_missing_does_not_wedge_the_queue(space: Space) -> None:
    space.client.zadd(space.key("BACKUP"), {"gone": PAST})
    space.client.zadd(space.key("DELAYED"), {"lost": PAST})
    space.client.hset(space.key("EXTENDED"), "gone", f"1:{PAST}")
    space.client.hset(space.key("RECEIVES"), "gone", 3)
    space.push(body("a"))
    popped = space.pop(3)
    assert popped.keys == [b"a"]
    assert space.dead == [(b"gone", b"", "body missing", 3), (b"lost", b"", "body missing", 0)]
    assert space.leases == {b"a": popped.deadline}
    assert (space.delayed, space.extended, space.receives) == ({}, {}, {})


def test_a_deadline_of_infinity_is_no_message_to_wait_for(space: Space) -> None:
    space.lease("never", deadline=float("inf"))
    space.lease("always", deadline=float("-inf"))
    assert space.pop(2).keys == [b"always"]


# The last permitted receive.


def test_a_message_is_dead_exactly_at_the_maximum(space: Space) -> None:
    space.push(body("a"))
    for count in (1, 2, 3):
        assert space.pop(timeout=1, max_receives=3).counts == [count]
    assert space.pop(max_receives=3).status == "again"
    assert space.dead == [(b"a", body("a"), "max receives", 3)]
    assert space.dump().keys() == {"DEAD"}


def test_a_due_message_is_dead_at_the_maximum_too(space: Space) -> None:
    space.delay("a", due=PAST, count=2)
    space.delay("b", due=PAST + 1, count=3)
    assert space.pop(max_receives=3).keys == [b"a"]
    assert space.pop(max_receives=3).status == "again"
    assert space.dead == [(b"b", body("b"), "max receives", 3)]


def test_without_a_maximum_nothing_dies(space: Space) -> None:
    space.lease("a", deadline=PAST, count=1_000_000)
    assert space.pop(max_receives=0).counts == [1_000_001]


def test_a_message_on_its_last_permitted_receive_travels_alone(space: Space) -> None:
    space.lease("killer", deadline=PAST, count=2)
    space.lease("other", deadline=PAST + 1)
    space.push(body("a"))
    assert space.pop(10, max_receives=3).keys == [b"killer"]
    assert space.pop(10, max_receives=3).keys == [b"other", b"a"]


def test_a_message_on_its_last_permitted_receive_is_not_added_to_a_batch(space: Space) -> None:
    space.lease("a", deadline=PAST)
    space.lease("killer", deadline=PAST + 1, count=2)
    space.push(body("b"))
    assert space.pop(10, max_receives=3).keys == [b"a"]
    assert space.pop(10, max_receives=3).keys == [b"killer"]
    assert space.pop(10, max_receives=3).keys == [b"b"]


def test_a_due_message_on_its_last_permitted_receive_travels_alone(space: Space) -> None:
    space.lease("a", deadline=PAST)
    space.delay("killer", due=PAST, count=2)
    space.push(body("b"))
    assert space.pop(10, max_receives=3).keys == [b"a"]
    assert space.pop(10, max_receives=3).keys == [b"killer"]


def test_a_listed_message_on_its_last_permitted_receive_travels_alone(space: Space) -> None:
    space.push(body("a"), body("killer"), body("b"))
    space.list_note("killer", body("killer"), 2)
    assert space.pop(10, max_receives=3).keys == [b"a"]
    assert space.ready == [body("killer"), body("b")]
    assert space.pop(10, max_receives=3).keys == [b"killer"]
    assert space.pop(10, max_receives=3).keys == [b"b"]


def test_with_one_permitted_receive_every_message_travels_alone(space: Space) -> None:
    space.push(body("a"), body("b"))
    assert space.pop(10, max_receives=1).keys == [b"a"]
    assert space.pop(10, max_receives=1).keys == [b"b"]


# Requeue to the back.


def test_requeue_back_gives_the_articles_order_and_keeps_the_counts(space: Space) -> None:
    space.push(body("listed"))
    space.lease("b", deadline=PAST + 1)
    space.lease("a", deadline=PAST, count=4)
    popped = space.pop(10, requeue="back")
    assert popped.keys == [b"listed", b"a", b"b"]
    assert popped.counts == [1, 5, 2]
    assert space.receives == {b"a": 5, b"b": 2}
    assert space.leases == dict.fromkeys(popped.keys, popped.deadline)


def test_requeue_back_puts_expired_messages_behind_the_backlog(space: Space) -> None:
    space.push(body("first"), body("second"))
    space.lease("a", deadline=PAST, extended=f"7:{PAST}")
    popped = space.frozen().pop(requeue="back")
    assert popped.keys == [b"first"]
    assert space.dump() == {
        "": [body("a"), body("second")],
        "BACKUP": {b"first": popped.deadline},
        "CONTEXT": {b"first": body("first")},
        "NOTES": {listed_field("a", body("a")): b"%d 1 0" % NOW},
    }


@pytest.mark.parametrize("padding", [0, 5000])
def test_a_count_on_the_list_is_that_of_one_body(space: Space, padding: int) -> None:
    poison = body("a", padding)
    space.list_note("a", poison, 3)
    space.push(poison[:-1] + b" ", b" " + poison, poison)
    assert space.pop(max_receives=5).counts == [1]  # the same id, another message
    space.client.delete(space.key("BACKUP"), space.key("CONTEXT"))
    assert space.listed == {listed_field("a", poison): (3, 0)}
    assert space.pop(max_receives=5).counts == [1]
    space.client.delete(space.key("BACKUP"), space.key("CONTEXT"))
    assert space.pop(max_receives=5).counts == [4]
    assert (space.receives, space.listed) == ({b"a": 4}, {})


def test_a_count_on_the_list_is_none_of_a_message_that_is_leased_or_delayed(space: Space) -> None:
    for key in ("a", "b"):
        space.list_note(key, body("another"), 3)
    space.lease("a", deadline=PAST)
    space.delay("b", due=PAST)
    assert space.pop(2, max_receives=4).counts == [2, 1]
    space.list_note("b", body("another"), 3)
    space.reject((space.leases[b"b"], "b"))
    assert space.dead == [(b"b", body("b"), "bad", 1)]


def test_a_message_inherits_nothing_from_one_that_the_articles_scripts_settled(
    space: Space,
) -> None:
    space.client.hset(space.key("RECEIVES"), "a", 4)  # its BACKUP and CONTEXT are deleted
    space.note("a", body("a"), b"3:1:{}")
    space.push(body("a"), body("b"))
    assert space.frozen().pop(2, timeout=SECOND, max_receives=5).counts == [1, 1]
    assert "ERRORS" not in space.dump()
    again = space.frozen(NOW + 2 * SECOND).pop(2, max_receives=5)
    assert (again.keys, again.counts) == ([b"a", b"b"], [2, 2])


def test_counts_of_messages_that_left_the_list_are_removed_when_it_is_empty(space: Space) -> None:
    for number in range(150):
        space.list_note(str(number), body(str(number)), 3)
    space.push(body("x"))
    space.lease("kept", count=2)
    popped = space.pop()
    assert len(space.listed) == 150  # the list was not empty
    assert space.pop().status == "empty"
    assert 50 <= len(space.listed) <= 51  # a hundred were looked at, and the rest counts no more
    space.push(*(body(str(number)) for number in range(150)))
    again = space.pop(150)
    assert set(again.counts) == {1}
    space.ack((again.deadline, *again.keys))
    space.pop()
    assert (space.receives, space.client.hgetall(space.key("NOTES"))) == ({b"kept": 2}, {})
    assert popped.keys == [b"x"]


def test_requeue_back_leases_due_messages_in_place(space: Space) -> None:
    space.push(body("listed"))
    space.delay("a", due=PAST)
    assert space.pop(requeue="back").keys == [b"a"]
    assert space.ready == [body("listed")]


def test_requeue_back_leaves_no_count_under_a_derived_key(space: Space) -> None:
    space.push(b"first", b"no id")
    space.lease(b"\x001:0001", b"no id", deadline=PAST, count=3)
    space.lease(b"\0a\x001:0002", body("a"), deadline=PAST, count=2)
    assert space.pop(2, requeue="back").bodies == [b"first", b"no id"]
    assert space.receives == {}
    assert space.listed == {listed_field("a", body("a")): (2, 0)}  # it has an id


def test_requeue_back_buries_at_the_maximum(space: Space) -> None:
    space.push(body("a"))
    for count in (1, 2):
        assert space.pop(timeout=1, max_receives=2, requeue="back").counts == [count]
    assert space.pop(max_receives=2, requeue="back").status == "again"
    assert space.dead == [(b"a", body("a"), "max receives", 2)]


def test_requeue_back_moves_a_mebibyte_in_one_call(space: Space) -> None:
    for number in range(3):
        space.lease(str(number), b"x" * (3 * MIB // 4), deadline=PAST + number)
    assert space.pop(3, requeue="back").status == "again"
    assert len(space.leases) == 1


# Settling in the same call.


def test_settled_messages_are_deleted_before_the_next_are_taken(space: Space) -> None:
    space.lease("a", deadline=FUTURE, count=3)
    space.lease("b", deadline=FUTURE + 1, extended=f"7:{FUTURE + 1}")
    space.push(body("c"))
    popped = space.pop(settled=[(FUTURE, "a"), (7, "b")])
    assert (popped.keys, popped.refused) == ([b"c"], [])
    assert space.dump() == {"BACKUP": {b"c": popped.deadline}, "CONTEXT": {b"c": body("c")}}


def test_a_fused_ack_refuses_stale_receipts_by_position_and_takes_all_the_same(
    space: Space,
) -> None:
    for key in ("a", "b", "c"):
        space.lease(key, deadline=FUTURE)
    space.delay("d")
    space.push(body("e"))
    popped = space.pop(settled=[(FUTURE, "a"), (FUTURE - 1, "b", "gone"), (FUTURE, "c", "d")])
    assert popped.refused == [2, -3, 5]
    assert popped.keys == [b"e"]
    assert space.leases == {b"b": FUTURE, b"e": popped.deadline}
    assert space.delayed == {b"d": FUTURE}
    assert space.bodies.keys() == {b"b", b"d", b"e"}


def test_a_fused_ack_on_an_empty_queue_reports_what_was_refused(space: Space) -> None:
    space.lease("a", deadline=FUTURE)
    popped = space.pop(settled=[(1, "a")])
    assert (popped.status, popped.refused) == ("empty", [1])


def test_a_fused_ack_of_an_expired_lease_that_nobody_took_is_in_time(space: Space) -> None:
    space.lease("a", deadline=PAST)
    popped = space.pop(settled=[(PAST, "a")])
    assert (popped.status, popped.refused) == ("empty", [])
    assert space.dump() == {}


def test_a_thousand_messages_are_settled_and_taken_in_one_call(space: Space) -> None:
    space.push(*(body(str(number)) for number in range(2000)))
    first = space.pop(1000)
    second = space.pop(1000, settled=[(first.deadline, *first.keys)])
    assert second.refused == []
    assert space.leases == dict.fromkeys(second.keys, second.deadline)
    assert space.bodies.keys() == set(second.keys)


def test_a_paused_queue_takes_nothing_but_settles(space: Space) -> None:
    space.client.set(space.key("PAUSED"), 1)
    space.push(body("listed"))
    space.hand_over(body("handed"))
    space.delay("due", due=PAST)
    space.lease("expired", deadline=PAST)
    before = space.dump()
    space.lease("mine", deadline=FUTURE)
    space.lease("theirs", deadline=FUTURE)
    popped = space.pop(10, settled=[(FUTURE, "mine"), (7, "theirs")])
    assert (popped.status, popped.refused) == ("paused", [2])
    space.client.zrem(space.key("BACKUP"), "theirs")
    space.client.hdel(space.key("CONTEXT"), "theirs")
    assert space.dump() == before


# Damaged records.


@pytest.mark.parametrize("place", ["BACKUP", "DELAYED", "list"])
def test_a_count_that_is_no_number_does_not_wedge_the_queue(space: Space, place: str) -> None:
    if place == "list":
        space.push(body("a"))
    else:
        space.client.zadd(space.key(place), {"a": PAST})
        space.client.hset(space.key("CONTEXT"), "a", body("a"))
    space.client.hset(space.key("RECEIVES"), "a", "many")
    assert space.pop().keys == [b"a"]


def test_the_bodies_of_the_producers_are_json(space: Space) -> None:
    # Guards the other tests here: `body` must be what it says.
    assert json.loads(body("a", padding=20)) == {"id": "a", "x": "x" * 13}


def test_one_call_takes_so_many_long_ids(space: Space) -> None:
    ids = [f"{number:0512}" for number in range(1000)]
    space.push(*(body(id) for id in ids))
    taken = len(space.pop(1000).keys)
    assert 300 < taken < 400
    assert space.pop(1000).keys == [id.encode() for id in ids[taken : 2 * taken]]


@pytest.mark.parametrize("count", [19, 20, 21])
def test_derived_keys_leave_nothing_else_in_the_queue(space: Space, count: int) -> None:
    space.push(*(b"%d" % number for number in range(count)))
    popped = space.pop(1000)
    assert popped.bodies == [b"%d" % number for number in range(count)]
    assert space.bodies == dict(popped.messages)
    assert space.leases.keys() == space.bodies.keys()
