"""stats: every message is counted once, where it is."""

from typing import Any

from tests.queue.scripts.space import NOW, PAST, Space, body

NAMES = (
    "listed",
    "handed",
    "leased",
    "expired",
    "delayed",
    "due",
    "dead",
    "paused",
    "until_lease",
    "until_due",
    "claimed",
    "returned",
    "later",
    "until_held",
)


def stats(space: Space) -> dict[str, Any]:
    """Return the figures that are not 0."""
    reply = space.call("stats")
    return {name: value for name, value in zip(NAMES, reply, strict=True) if value}


def test_an_empty_queue_has_nothing_anywhere(space: Space) -> None:
    assert stats(space) == {}
    assert space.dump() == {}


def test_expired_and_due_messages_are_counted_apart_from_running_and_delayed(space: Space) -> None:
    space.push(body("a"), body("b"))
    space.hand_over(body("c"))
    for number in range(-2, 4):
        space.lease(f"lease{number}", deadline=NOW + number)
        space.delay(f"delay{number}", due=NOW + number + 1)
    space.die("d", b"")
    space.client.set(space.key("PAUSED"), "")
    before = space.dump()
    assert stats(space.frozen()) == {
        "listed": 2,
        "handed": 1,
        "leased": 6,
        "expired": 3,  # at -2, -1 and, since a deadline is over when it is reached, 0
        "delayed": 6,
        "due": 2,
        "dead": 1,
        "paused": 1,
        "until_lease": -2,
        "until_due": -1,
    }
    assert space.dump() == before


def test_groups_are_counted_beside_the_messages(space: Space) -> None:
    keys = ["GROUPS:PARKED", "GROUPS:BUSY", "GROUPS:TURNS", "GROUPS:STOPPED"]
    space.push(body("a"))
    assert space.frozen().call("stats", lists=keys)[14:] == [0, 0, 0, 0, 0, 0]
    parked, busy, turns, stopped = map(space.key, keys)
    space.client.zadd(parked, {f"001{of}{NOW}body": 0 for of in "abcd"})
    space.client.hset(busy, mapping={"a": 1, "x": 2})
    space.client.hset(stopped, mapping={"y": "1-1 1-2", "z": "2-1"})
    space.client.zadd(turns, {"b": NOW, "c": NOW - 7, "d": NOW + 9})
    reply = space.frozen().call("stats", lists=keys)
    assert [reply[0], *reply[14:]] == [5, 4, 2, 2, 1, 2, 7]
    space.client.zremrangebyscore(turns, 0, NOW)
    assert space.frozen().call("stats", lists=keys)[14:] == [4, 2, 0, 1, 2, 0]


def test_stats_and_pop_agree_on_what_is_ready(space: Space) -> None:
    for number in range(-3, 4):
        space.lease(f"lease{number}", deadline=NOW + number)
        space.delay(f"delay{number}", due=NOW + number)
    counted = stats(space.frozen())
    assert len(space.frozen().pop(100).keys) == counted["expired"] + counted["due"] == 8


def test_a_pause_is_no_message(space: Space) -> None:
    space.client.set(space.key("PAUSED"), 1)
    assert stats(space) == {"paused": 1}


def test_an_old_deadline_is_negative(space: Space) -> None:
    space.lease("a", deadline=PAST)
    assert stats(space.frozen(PAST + 5)) == {"leased": 1, "expired": 1, "until_lease": -5}
