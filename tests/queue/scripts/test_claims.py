"""claims/*: a group takes messages by the batch, and only its latest driver may change anything."""

from typing import Any

import pytest

from tests.queue.scripts.space import (
    CLAIM,
    FUTURE,
    GROUP,
    MIB,
    NOW,
    PAST,
    SECOND,
    Space,
    Value,
    body,
    listed_field,
    mark,
)
from tests.queue.scripts.test_own_servers import exhaust_memory

HOUR = 3600 * SECOND
EPOCH = 3


def driver(space: Space, **facts: Value) -> Space:
    """Let the group have a driver, whose epoch is `EPOCH`."""
    space.know(**{"epoch": EPOCH, **facts})
    return space


def claim(
    space: Space, batch: int = 1, messages: int = 1000, size: int = 0, epoch: int = EPOCH
) -> list[Any]:
    reply: list[Any] = space.call("claims/claim", epoch, batch, messages, size, HOUR, space.end)
    return reply


def claimed(space: Space) -> list[bytes]:
    """Return the messages of the claim, the first to be read at the front."""
    return list(reversed(space.client.lrange(space.key(CLAIM), 0, -1)))


def facts(space: Space) -> dict[str, int]:
    found = space.client.hgetall(space.key(GROUP))
    return {field.decode(): int(value) for field, value in found.items()}


def held(space: Space) -> dict[bytes, int]:
    return space._scores("HELD")


def rows(space: Space) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = space.client.hgetall(space.key("HELDROWS"))
    return found


def bodies(*ids: str) -> list[bytes]:
    return [body(id) for id in ids]


# Beginning.


def test_each_driver_has_an_epoch_of_its_own(space: Space) -> None:
    assert space.call("claims/begin") == [1, 0, 0]
    space.know(last=7, acked=5)
    assert space.call("claims/begin") == [2, 7, 5]
    assert facts(space) == {"epoch": 2, "last": 7, "acked": 5}


def test_a_new_driver_does_not_go_on_with_the_claim_of_another(space: Space) -> None:
    driver(space, claiming=1, last=1)
    space.call("claims/begin")
    assert "claiming" not in facts(space)


# Claiming.


def test_messages_leave_every_place_for_the_claim_in_the_order_of_a_pop(space: Space) -> None:
    ready = driver(space).frozen()
    space.push(*bodies("g", "h"))
    space.hand_over(*bodies("e", "f"))
    space.lease("a", deadline=PAST, count=2, extended=f"7:{PAST}")
    space.lease("b", deadline=NOW)
    space.delay("c", due=PAST, count=1)
    space.delay("d", due=NOW)
    assert claim(ready) == [b"ok", 8, 0]
    assert claimed(space) == bodies(*"abcdefgh")
    assert space.dump() == {
        CLAIM: list(reversed(bodies(*"abcdefgh"))),
        GROUP: {b"epoch": b"3", b"last": b"1", b"bytes": b"80"},
        "HELD": {space.key(CLAIM): NOW + HOUR},
        "HELDROWS": {space.key(CLAIM): b"8"},
    }


def test_what_runs_or_is_not_due_is_left_alone(space: Space) -> None:
    ready = driver(space).frozen()
    space.lease("a", deadline=NOW + 1)
    space.delay("b", due=NOW + 1)
    before = space.dump()
    assert claim(ready) == [b"empty"]
    assert space.dump() == {**before, GROUP: {b"epoch": b"3", b"last": b"1", b"bytes": b"0"}}


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_a_late_copy_of_a_claim_that_found_nothing_takes_nothing(
    space: Space, begun: bool, paused: bool
) -> None:
    driver(space, **({"claiming": 1, "last": 1} if begun else {}))
    if paused:
        space.client.set(space.key("PAUSED"), 1)
    assert claim(space) == [b"empty"]
    space.client.delete(space.key("PAUSED"))
    space.push(body("a"))
    assert claim(space) == [b"empty"]
    assert space.ready == bodies("a")
    assert claim(space, batch=2) == [b"ok", 1, 0]


def test_a_claim_has_no_more_messages_than_are_wanted(space: Space) -> None:
    driver(space)
    space.push(*bodies("a", "b", "c"))
    assert claim(space, messages=2) == [b"ok", 2, 0]
    assert claimed(space) == bodies("a", "b")
    assert space.ready == bodies("c")


def test_a_claim_stops_where_its_bytes_are_reached(space: Space) -> None:
    driver(space)
    space.push(*bodies("a", "b", "c", "d"))
    assert claim(space, size=25) == [b"ok", 3, 0]
    assert facts(space)["bytes"] == 30


@pytest.mark.parametrize("messages", [3, 4])
def test_a_whole_list_becomes_the_claim(space: Space, messages: int) -> None:
    driver(space)
    space.push(*bodies("a", "b", "c"))
    space.client.expire(space.name, 1000)
    assert claim(space, messages=messages) == [b"ok", 3, 0]
    assert claimed(space) == bodies("a", "b", "c")
    assert "EXPIRES" not in space.dump()


@pytest.mark.parametrize("place", ["push", "hand_over"])
def test_a_claim_buries_what_was_canceled(space: Space, place: str) -> None:
    driver(space)
    getattr(space, place)(*bodies("a", "b", "b", "c"), b"no id")
    space.list_note("b", body("b"), 3, canceled=1, since=space.now())
    space.list_note("c", body("another"), canceled=1, since=space.now())
    space.note("b", body("b"), b"3:8:{}")
    space.client.hset(space.key("NOTES"), ":b", mark(body("b")) + b"/0")
    assert claim(space) == [b"ok", 4, 1], "a dead letter asks for another call"
    assert claim(space) == [b"ok", 4, 0]
    assert claimed(space) == [*bodies("a", "b", "c"), b"no id"]
    assert space.dead == [(b"b", body("b"), "canceled", 3)]
    assert (space.dead_lettered, space.noted("b")) == ([[b"3:8:{}"]], [])
    assert space.listed == {listed_field("c", body("another")): (0, 1)}
    assert space.named == {}
    assert facts(space)["bytes"] == sum(map(len, claimed(space)))


def test_a_claim_of_canceled_messages_alone_is_empty_and_ends_all_notes(space: Space) -> None:
    driver(space)
    space.push(body("a"))
    for id in "ab":
        space.list_note(id, body(id), canceled=1, since=space.now())
    assert claim(space) == [b"ok", 0, 1]
    assert claim(space) == [b"empty"]
    assert set(space.dump()) == {"DEAD", GROUP}


def test_with_notes_a_claim_reads_ids_within_the_budget(space: Space) -> None:
    driver(space)
    long = [b'{"x":"%s","id":"%d"}' % (b"x" * 30_000, n) for n in range(5)]
    space.push(*long)
    space.list_note("4", long[4], canceled=1, since=space.now())
    assert claim(space, messages=9) == [b"ok", 2, 1]
    replies = [claim(space, messages=9) for _ in range(3)]
    assert [reply[1] for reply in replies] == [4, 4, 4]
    assert claimed(space) == long[:4]
    assert [letter[0] for letter in space.dead] == [b"4"]


def test_a_message_of_a_unique_push_keeps_its_id_in_a_claim(space: Space) -> None:
    driver(space)
    space.lease("a", deadline=PAST)
    space.delay("b", due=PAST)
    space.client.hset(space.key("NOTES"), mapping={":a": "=", ":b": "="})
    assert claim(space.frozen(NOW)) == [b"ok", 2, 0]
    assert space.named == {id: mark(body(id.decode())) + b"/%d" % NOW for id in (b"a", b"b")}


def test_a_list_as_long_as_the_claim_is_taken_at_once(space: Space) -> None:
    driver(space)
    space.push(*bodies(*map(str, range(1500))))
    assert claim(space, messages=1500) == [b"ok", 1500, 0]


def test_a_long_claim_is_built_step_by_step(space: Space) -> None:
    driver(space)
    names = [f"{number:05d}" for number in range(5000)]
    space.push(*bodies(*names))
    for so_far in (1000, 2000):
        assert claim(space, messages=2500) == [b"ok", so_far, 1]
        assert facts(space)["claiming"] == 1
        assert rows(space) == {space.key(CLAIM): b"%d" % so_far}
    assert claim(space, messages=2500) == [b"ok", 2500, 0]
    assert "claiming" not in facts(space)
    assert claimed(space) == bodies(*names[:2500])
    assert space.ready == bodies(*names[2500:])


def test_bytes_are_counted_over_all_steps(space: Space) -> None:
    driver(space)
    space.push(*bodies(*(f"{number:05d}" for number in range(5000))))
    assert claim(space, messages=5000, size=14 * 1500) == [b"ok", 1000, 1]
    assert claim(space, messages=5000, size=14 * 1500) == [b"ok", 1500, 0]


def test_one_step_moves_a_mebibyte(space: Space) -> None:
    driver(space)
    space.push(*(b"x" * (3 * MIB // 8) for _ in range(5)), b"y")
    assert claim(space, messages=5) == [b"ok", 3, 1]
    assert claim(space, messages=5) == [b"ok", 5, 0]


def test_one_step_takes_five_hundred_that_came_back(space: Space) -> None:
    driver(space)
    space.push(body("last"))
    for number in range(501):
        space.lease(f"{number:03d}", deadline=PAST)
    assert claim(space) == [b"ok", 500, 1]
    assert claim(space) == [b"ok", 502, 0]
    assert claimed(space)[-1] == body("last")


def test_a_resent_step_adds_nothing_to_a_claim_that_is_complete(space: Space) -> None:
    driver(space)
    space.push(*bodies("a", "b"))
    claim(space)
    space.push(body("c"))
    assert claim(space) == [b"ok", 2, 0]
    assert space.ready == bodies("c")


def test_a_batch_is_used_once(space: Space) -> None:
    driver(space, last=5, acked=4)
    space.push(body("a"))
    for used in (1, 4, 5):
        assert claim(space, batch=used) == [b"taken", 5]
    assert claim(space, batch=6) == [b"ok", 1, 0]
    assert space.call("claims/ack", EPOCH, 9, 0) == [b"ok", 1]
    space.push(body("b"))
    assert claim(space, batch=9) == [b"taken", 9]


def test_a_claim_that_was_acked_while_it_was_built_grows_no_more(space: Space) -> None:
    driver(space)
    space.push(*bodies(*map(str, range(1500))))
    assert claim(space, messages=1400) == [b"ok", 1000, 1]
    assert space.call("claims/ack", EPOCH, 1, 600_000) == [b"ok", 1000]
    assert claim(space, messages=1400) == [b"taken", 1]  # the list expires
    assert len(space.ready) == 500


def test_a_list_that_has_the_name_of_a_new_claim_stays_as_it_is(space: Space) -> None:
    driver(space)
    space.push(body("a"))
    space.client.lpush(space.key(CLAIM), "kept")
    assert claim(space) == [b"taken", 1]
    assert claimed(space) == [b"kept"]


def test_a_record_without_a_body_is_dead_lettered_and_does_not_stop_a_claim(space: Space) -> None:
    driver(space)
    space.client.zadd(space.key("BACKUP"), {"gone": PAST})
    space.client.hset(space.key("RECEIVES"), "gone", 3)
    space.push(body("a"))
    assert claim(space) == [b"ok", 1, 1]
    assert space.dead == [(b"gone", b"", "body missing", 3)]
    assert claim(space) == [b"ok", 1, 0]


def test_what_came_back_fills_the_room_that_a_dead_letter_leaves(space: Space) -> None:
    driver(space)
    space.client.zadd(space.key("BACKUP"), {"gone": PAST})
    space.lease("a", deadline=PAST + 1)
    space.push(body("b"))
    claim(space, messages=1)
    assert claim(space, messages=1) == [b"ok", 1, 0]
    assert claimed(space) == bodies("a")


def test_a_paused_queue_is_not_claimed_from(space: Space) -> None:
    driver(space)
    space.push(body("a"))
    space.client.set(space.key("PAUSED"), 1)
    assert claim(space) == [b"empty"]
    assert space.ready == bodies("a")


def test_a_pause_ends_a_claim_that_is_being_built(space: Space) -> None:
    driver(space)
    space.push(*bodies(*map(str, range(2500))))
    claim(space, messages=2400)
    space.client.set(space.key("PAUSED"), 1)
    assert claim(space, messages=2400) == [b"ok", 1000, 0]
    assert claim(space, messages=2400) == [b"ok", 1000, 0]
    space.client.delete(space.key("PAUSED"))
    assert claim(space, messages=2400) == [b"ok", 1000, 0]


def test_what_is_held_no_longer_comes_before_what_is_claimed(space: Space) -> None:
    driver(space)
    space.push(body("a"))
    space.hold(body("b"), until=PAST, suffix="CLAIM:other:1")
    assert claim(space) == [b"held", space.key("CLAIM:other:1")]
    assert space.ready == bodies("a")


def test_a_claim_that_was_given_back_is_begun_anew(space: Space) -> None:
    driver(space)
    space.push(*bodies(*map(str, range(1500))))
    claim(space, messages=1400, size=10**6)
    space.client.delete(space.key(CLAIM), space.key("HELD"), space.key("HELDROWS"))
    assert claim(space, messages=1400, size=10**6) == [b"ok", 500, 0]
    assert facts(space)["bytes"] == sum(len(each) for each in claimed(space))


# Fencing.


@pytest.mark.parametrize(
    ("script", "args"),
    [
        ("claims/claim", (1, 1000, 0, HOUR, "right")),
        ("claims/ack", (1, 1000)),
        ("claims/forget", (1,)),
        ("claims/beat", (HOUR,)),
        ("claims/release", ()),
    ],
)
@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_nothing_is_changed_for_a_driver_that_does_not_have_the_group(
    space: Space, script: str, args: tuple[Value, ...], epoch: int
) -> None:
    driver(space, last=1)
    space.push(body("a"))
    space.hold(body("b"))
    name = [space.key(CLAIM)] if script in ("claims/beat", "claims/release") else []
    before = space.dump()
    assert space.call(script, epoch, *args, *name) == [b"fenced", EPOCH]
    assert space.dump() == before


# Acking.


def test_an_acked_claim_is_kept_for_a_while_and_held_no_more(space: Space) -> None:
    driver(space)
    space.hold(*bodies("a", "b"))
    assert space.call("claims/ack", EPOCH, 4, 600_000) == [b"ok", 2]
    assert claimed(space) == bodies("a", "b")
    assert held(space) == {}
    assert rows(space) == {}
    assert facts(space)["acked"] == 4
    assert 590_000 < space.client.pttl(space.key(CLAIM)) <= 600_000


def test_an_acked_claim_that_is_not_kept_is_gone(space: Space) -> None:
    driver(space)
    space.hold(body("a"))
    assert space.call("claims/ack", EPOCH, 1, 0) == [b"ok", 1]
    assert space.dump() == {GROUP: {b"epoch": b"3", b"acked": b"1"}}


def test_an_ack_may_be_repeated(space: Space) -> None:
    driver(space)
    space.hold(body("a"))
    space.call("claims/ack", EPOCH, 1, 600_000)
    assert space.call("claims/ack", EPOCH, 1, 600_000) == [b"ok", 0]
    assert space.call("claims/ack", EPOCH, 0, 600_000) == [b"ok", 0]
    assert facts(space)["acked"] == 1


def test_a_claim_that_is_being_given_back_cannot_be_acked(space: Space) -> None:
    driver(space)
    space.hold(body("a"), until=0)
    assert space.call("claims/ack", EPOCH, 1, 0) == [b"ok", 0]
    assert claimed(space) == bodies("a")
    assert held(space) == {space.key(CLAIM): 0}


# Forgetting.


def test_a_kept_claim_is_deleted_and_one_that_is_held_is_not(space: Space) -> None:
    driver(space)
    space.hold(*bodies("a", "b"))
    assert space.call("claims/forget", EPOCH, 1) == [b"ok", 0]
    assert claimed(space) == bodies("a", "b")
    space.call("claims/ack", EPOCH, 1, 600_000)
    assert space.call("claims/forget", EPOCH, 1) == [b"ok", 2]
    assert space.dump() == {GROUP: {b"epoch": b"3", b"acked": b"1"}}
    assert space.call("claims/forget", EPOCH, 1) == [b"ok", 0]


# Renewing and releasing.


def test_a_beat_renews_the_leases_and_the_oldest_ends_last(space: Space) -> None:
    driver(space)
    for batch in (1, 2):
        space.hold(body("a"), until=NOW + batch, suffix=f"CLAIM:g:{batch}")
    space.hold(body("b"), until=0, suffix="CLAIM:g:3")
    newest_first = [space.key(f"CLAIM:g:{batch}") for batch in (4, 3, 2, 1)]
    assert space.frozen().call("claims/beat", EPOCH, HOUR, *newest_first) == [b"ok", 2]
    assert held(space) == {
        space.key("CLAIM:g:1"): NOW + HOUR + 3,
        space.key("CLAIM:g:2"): NOW + HOUR + 2,
        space.key("CLAIM:g:3"): 0,
    }


@pytest.mark.parametrize("epoch", [0, EPOCH])
def test_a_release_ends_the_leases_and_fences_the_driver(space: Space, epoch: int) -> None:
    driver(space, claiming=1)
    space.hold(body("a"))
    names = [space.key(CLAIM), space.key("CLAIM:g:9")]
    assert space.call("claims/release", epoch, *names) == [b"ok", EPOCH + 1]
    assert held(space) == {space.key(CLAIM): 0}
    assert facts(space) == {"epoch": EPOCH + 1, "released": EPOCH}
    assert space.call("claims/ack", EPOCH, 1, 0) == [b"fenced", EPOCH + 1]


def test_a_release_may_be_sent_again_but_not_after_another_driver_began(space: Space) -> None:
    driver(space)
    space.hold(body("a"), suffix="CLAIM:g:1")
    space.hold(body("b"), suffix="CLAIM:g:2")
    assert space.call("claims/release", EPOCH, space.key("CLAIM:g:2")) == [b"ok", EPOCH + 1]
    assert space.call("claims/release", EPOCH, space.key("CLAIM:g:1")) == [b"ok", EPOCH + 1]
    assert set(held(space).values()) == {0}
    space.call("claims/begin")
    assert space.call("claims/release", EPOCH) == [b"fenced", EPOCH + 2]


# While the counters are watched.


def test_what_is_claimed_and_acked_is_counted_while_it_is_watched(space: Space) -> None:
    driver(space)
    space.call("watch", 10_000)
    space.push(*bodies("a", "b"))
    space.lease("c", deadline=PAST)
    claim(space)
    space.call("claims/ack", EPOCH, 1, 0)
    counters = space.client.hgetall(space.key("COUNTERS"))
    assert {each: counters.get(each) for each in (b"returned", b"acked", b"ended")} == {
        b"returned": b"1",
        b"acked": b"3",
        b"ended": None,
    }


@pytest.mark.parametrize("field", ["taken", "acked", "returned"])
def test_counters_that_cannot_count_stop_nothing(space: Space, field: str) -> None:
    driver(space)
    space.client.hset(space.key("COUNTERS"), field, "somebody else's")
    space.push(body("a"))
    space.lease("b", deadline=PAST)
    assert claim(space) == [b"ok", 2, 0]
    assert space.call("claims/ack", EPOCH, 1, 0) == [b"ok", 2]
    assert facts(space)["acked"] == 1
    assert space.client.hgetall(space.key("COUNTERS")) == {field.encode(): b"somebody else's"}


# A full server.


def test_a_full_server_can_be_claimed_from(own_space: Space) -> None:
    own_space.push(*bodies("b", "c"))
    own_space.lease("a", deadline=PAST)
    exhaust_memory(own_space)
    assert own_space.call("claims/begin") == [1, 0, 0]
    assert claim(own_space, epoch=1, messages=2) == [b"ok", 2, 0]
    names = (own_space.key(CLAIM),)
    assert own_space.call("claims/beat", 1, HOUR, *names) == [b"ok", 1]
    assert own_space.call("claims/ack", 1, 1, 600_000) == [b"ok", 2]
    assert own_space.call("claims/forget", 1, 1) == [b"ok", 2]
    assert own_space.ready == bodies("c")
    assert own_space.call("claims/ack", 1, 2, 0) == [b"ok", 0]
    assert own_space.call("claims/forget", 1, 2) == [b"ok", 0]


def test_a_full_server_gives_claims_back(own_space: Space) -> None:
    driver(own_space)
    own_space.hold(*bodies("a", "b"))
    exhaust_memory(own_space)
    assert own_space.call("claims/release", 0, own_space.key(CLAIM)) == [b"ok", EPOCH + 1]
    assert own_space.call("held/give_back", "front", "right") == [2, 0]
    assert own_space.ready == bodies("a", "b")


def test_a_whole_list_is_claimed_on_a_full_server(own_space: Space) -> None:
    driver(own_space)
    own_space.push(body("a"))
    own_space.lease("b", deadline=FUTURE)
    exhaust_memory(own_space)
    assert claim(own_space) == [b"ok", 1, 0]
