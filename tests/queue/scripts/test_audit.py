"""audit and audit_scan: find records that do not belong together, and repair them."""

import itertools
from typing import Any

import pytest

from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import (
    CLAIM,
    FUTURE,
    NOW,
    PAST,
    SECOND,
    Space,
    body,
    chunked,
    listed_field,
    mark,
)

WALKS = ("backup", "delayed", "context", "receives", "extended", "heldrows", "errors")


def scan(space: Space, walk: str, repair: int = 0) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Walk to the end and return how many entries were seen, and the problems with their keys."""
    seen, problems, cursor = 0, [], b"0"
    for _ in itertools.count():
        cursor, count, *found = space.call("audit_scan", walk, cursor, repair)
        seen += count
        problems += chunked(found)
        if cursor == b"0":
            return seen, problems
    raise AssertionError("unreachable")


def problems(space: Space, repair: int = 0) -> list[tuple[bytes, bytes]]:
    return [found for walk in WALKS for found in scan(space, walk, repair)[1]]


def in_order(space: Space) -> Space:
    """A queue with something of every kind, as the scripts leave it."""
    space.push(body("listed"))
    space.hand_over(body("handed"))
    space.lease("first", deadline=space.now() + 30 * SECOND)
    space.lease("again", deadline=PAST, count=2, extended=f"7:{PAST}")
    space.lease(b"\x001:0001", b"no id", deadline=PAST)
    space.delay("later", due=FUTURE)
    space.delay("nacked", due=PAST, count=1)
    space.die("dead", b"body")
    space.note("nacked", body("nacked"), b"1:7:{}")
    space.hold(body("claimed"))
    space.list_note("listed", body("listed"), 2)
    space.client.hset(space.key("NOTES"), ":later", "=")
    space.client.set(space.key("PAUSED"), 1)
    space.client.hset(space.key("RECORD"), mapping={"format": 2, "kind": "left"})
    return space


# audit.


def test_the_audit_returns_types_expiries_and_sizes(space: Space) -> None:
    sound = in_order(space)
    types = [slot.type.encode() for slot in parse(read(sound.directory, "audit")).keys]
    before = sound.dump()
    assert sound.call("audit", 0) == [*([kind, 0] for kind in types), [3, 5, 2, 2]]
    assert sound.dump() == before


def test_an_empty_queue_is_sound(space: Space) -> None:
    assert space.call("audit", 1) == [*[[b"none", 0]] * 13, [0, 0, 0, 0]]
    assert space.dump() == {}


def test_a_wrong_type_is_returned_instead_of_the_sizes(space: Space) -> None:
    sound = in_order(space)
    for slot in parse(read(sound.directory, "audit")).keys:
        sound.client.delete(sound.key(slot.suffix))
        sound.client.set(sound.key(slot.suffix), 1)
        reply = sound.call("audit", 0)
        assert reply[slot.number - 1] == [b"string", 0]
        assert len(reply) == 13


def test_an_expiry_is_reported_and_removed_if_asked(space: Space) -> None:
    sound = in_order(space)
    suffixes = [slot.suffix for slot in parse(read(sound.directory, "audit")).keys]
    before = sound.dump()
    for suffix in suffixes:
        sound.client.expire(sound.key(suffix), 1000)
    assert [row[1] for row in sound.call("audit", 0)[:10]] == [1] * 10
    assert sound.dump().get("EXPIRES") == sorted(suffixes)
    assert [row[1] for row in sound.call("audit", 1)[:10]] == [1] * 10
    assert sound.dump() == before


# audit_scan.


def test_a_sound_queue_has_no_problems_and_a_repair_changes_nothing(space: Space) -> None:
    sound = in_order(space)
    before = sound.dump()
    assert problems(sound) == []
    assert problems(sound, repair=1) == []
    assert sound.dump() == before


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_sees_every_entry(space: Space, walk: str) -> None:
    with space.batched() as keys:
        for number in range(1000):
            keys.lease(f"a{number}", deadline=PAST, count=2, extended=f"7:{PAST}")
            keys.delay(f"b{number}")
            keys.hold(b"", suffix=f"CLAIM:a:{number}")
            keys.note(f"a{number}", b"", b"1:7:{}")
    expected = {"context": 2000}.get(walk, 1000)
    seen, found = scan(space, walk)
    assert seen >= expected  # a scan may show an entry twice
    assert found == []


def test_one_step_is_bounded(space: Space) -> None:
    with space.batched() as keys:
        for number in range(2000):
            keys.lease(f"a{number}")
    for walk, most in (("backup", 300), ("context", 300)):
        assert space.call("audit_scan", walk, 0, 0)[1] < most


@pytest.mark.parametrize(("walk", "zset"), [("backup", "BACKUP"), ("delayed", "DELAYED")])
def test_a_record_without_a_body_goes_to_the_dead_letters(
    space: Space, walk: str, zset: str
) -> None:
    space.client.zadd(space.key(zset), {"gone": PAST})
    space.client.hset(space.key("RECEIVES"), "gone", 2)
    space.client.hset(space.key("EXTENDED"), "gone", f"7:{PAST}")
    before = space.dump()
    assert scan(space, walk) == (1, [(b"body missing", b"gone")])
    assert space.dump() == before
    assert scan(space.frozen(), walk, repair=1) == (1, [(b"body missing", b"gone")])
    assert space.dead == [(b"gone", b"", "body missing", 2)]
    assert space.dump().keys() == {"DEAD"}


def test_an_orphan_body_becomes_ready(space: Space) -> None:
    space.client.hset(space.key("CONTEXT"), "a", body("a"))
    before = space.dump()
    assert scan(space, "context") == (1, [(b"orphan body", b"a")])
    assert space.dump() == before
    scan(space.frozen(), "context", repair=1)
    assert space.dump() == {"CONTEXT": {b"a": body("a")}, "DELAYED": {b"a": NOW}}
    assert problems(space) == []


def test_of_a_lease_and_a_delay_the_lease_stays(space: Space) -> None:
    deadline = space.now() + SECOND
    space.lease("a", deadline=deadline)
    space.delay("a")
    assert scan(space, "backup")[1] == [(b"leased and delayed", b"a")]
    assert space.delayed == {b"a": FUTURE}
    scan(space, "backup", repair=1)
    assert (space.leases, space.delayed) == ({b"a": deadline}, {})


@pytest.mark.parametrize(
    ("zset", "score", "found"),
    [
        ("backup", 0, False),
        ("backup", NOW + 43_200_065_535, False),
        ("backup", NOW + 43_200_065_536, True),
        ("backup", -1, True),
        ("backup", float("inf"), True),
        ("backup", float("-inf"), True),
        ("delayed", 0, False),
        ("delayed", 2**53 - 1, False),
        ("delayed", 2**53, True),
        ("delayed", -1, True),
        ("delayed", float("inf"), True),
    ],
)
def test_a_score_that_no_script_gives_becomes_now(
    space: Space, zset: str, score: float, found: bool
) -> None:
    (space.lease if zset == "backup" else space.delay)("a", None, score)
    expected = [(b"deadline out of range", b"a")] if found else []
    before = space.dump()
    assert scan(space.frozen(), zset)[1] == expected
    assert space.dump() == before
    scan(space.frozen(), zset, repair=1)
    scores: dict[bytes, Any] = space.dump()[zset.upper()]
    assert {key: float(each) for key, each in scores.items()} == {b"a": NOW if found else score}


def test_counts_and_extensions_of_nothing_are_deleted(space: Space) -> None:
    space.delay("delayed", count=3)
    before = space.dump()
    space.client.hset(space.key("RECEIVES"), "gone", 3)
    space.client.hset(space.key("EXTENDED"), mapping={"gone": "7:8", "delayed": "7:8"})
    assert scan(space, "receives")[1] == [(b"stale count", b"gone")]
    assert sorted(scan(space, "extended")[1]) == [
        (b"stale extension", b"delayed"),
        (b"stale extension", b"gone"),
    ]
    problems(space, repair=1)
    assert space.dump() == before


@pytest.mark.parametrize("place", ["push", "hand_over"])
def test_notes_of_messages_on_a_list_stay_while_there_is_one(space: Space, place: str) -> None:
    getattr(space, place)(body("listed"))
    space.list_note("listed", body("listed"), 3)
    space.list_note("canceled", body("canceled"), 0, 1, since=space.now())
    before = space.dump()
    space.list_note("week", body("week"), 0, 1)
    stale = (b"stale note", listed_field("week", body("week")))
    assert scan(space, "notes", repair=1)[1] == [stale]
    assert space.dump() == before
    space.client.hset(space.key("NOTES"), "", space.now())
    assert len(scan(space, "notes")[1]) == 2, "the lists were empty since"
    space.client.delete(space.name, space.key("HANDOFF"))
    assert len(scan(space, "notes", repair=1)[1]) == 2
    assert space.dump() == {}


def test_names_of_unique_messages_are_checked(space: Space) -> None:
    derived = b"\0a\0%d:7:0001" % FUTURE
    listed = b"%s/%d" % (mark(body("held")), space.now() + SECOND)
    space.hold(body("held"))
    space.delay(derived, body("a"))
    space.delay("b")
    notes = {b":held": listed, b":a": b"%d:7:0001" % FUTURE, b":b": b"="}
    space.client.hset(space.key("NOTES"), mapping=notes)
    before = space.dump()
    assert scan(space, "notes", repair=1)[1] == []
    assert space.dump() == before
    late = b"%s/%d" % (mark(b"late"), space.now() + 400_000_000 * SECOND)
    gone = {b":b": b"%d:8:0001 =" % FUTURE, b":late": late, b":c": b"="}
    space.client.hset(space.key("NOTES"), mapping=gone)
    found = [
        (b"deadline out of range", b":late"),
        (b"stale note", b":b"),
        (b"stale note", b":c"),
    ]
    assert sorted(scan(space, "notes")[1]) == found
    assert sorted(scan(space, "notes", repair=1)[1]) == found
    assert scan(space, "notes")[1] == []
    assert space.named == {
        b"held": listed,
        b"a": notes[b":a"],
        b"b": b"=",
        b"late": mark(b"late") + b"/0",
    }
    space.client.delete(space.key("HELD"), space.key("HELDROWS"), space.key(CLAIM))
    assert sorted(key for _, key in scan(space, "notes")[1]) == [b":held", b":late"]


def test_a_walk_over_the_bodies_reads_few_of_them(space: Space) -> None:
    for number in range(1100):
        space.client.hset(space.key("CONTEXT"), f"{number:04}", b"x" * 10_000)
    weighed = space.weigh("audit_scan", "context", 0, 0)
    assert weighed.reply[1] >= 1
    assert weighed.total < 120_000


def test_a_walk_over_the_bodies_of_a_small_queue_reads_none_of_them(space: Space) -> None:
    long = b"x" * 100_000
    for number in range(20):
        space.lease(f"{number}", long, deadline=FUTURE)
    space.client.zrem(space.key("BACKUP"), "7")
    assert space.weigh("audit_scan", "context", 0, 0).total < len(long)
    assert scan(space, "context") == (20, [(b"orphan body", b"7")])


def test_a_walk_over_a_large_queue_finds_what_a_small_one_does(space: Space) -> None:
    keys = [f"{number:04}" for number in range(1001)]
    space.client.hset(space.key("CONTEXT"), mapping=dict.fromkeys(keys, b"body"))
    space.client.zadd(space.key("BACKUP"), dict.fromkeys(keys[1:], FUTURE))
    _, found = scan(space, "context")
    assert set(found) == {(b"orphan body", b"0000")}
    assert space.call("audit_scan", "context", 0, 0)[0] != b"0"
