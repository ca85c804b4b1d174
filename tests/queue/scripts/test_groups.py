"""groups/list and groups/audit: the groups that a consumer has met."""

from typing import Any

import pytest

from tests.queue.scripts.grouped import busy, record, turns
from tests.queue.scripts.space import NOW, Space

#: When the first message was moved aside.
FIRST = NOW - 900


def fill(space: Space, busy: dict[str, int], parked: list[str], turns: dict[str, int]) -> None:
    """Put groups into their keys; each name in ``parked`` stands for one message."""
    if busy:
        space.client.hset(space.key("GROUPS:BUSY"), mapping=busy)
    members = {f"{len(name):03}{name}{FIRST + at}body": 0 for at, name in enumerate(parked)}
    for key, scores in (("PARKED", members), ("TURNS", turns)):
        if scores:
            space.client.zadd(space.key(f"GROUPS:{key}"), scores)


def listed(space: Space, which: str, wanted: int = 100) -> list[list[Any]]:
    """Return the columns of the groups, sorted by name."""
    cursor: Any = "0"
    found: dict[str, list[Any]] = {}
    while True:
        now, cursor, *columns = space.frozen().call("groups/list", which, cursor, wanted)
        assert now == NOW
        rows = [columns[at : at + 8] for at in range(0, len(columns), 8)]
        found |= {row[0].decode(): row if any(row[5:]) else row[:5] for row in rows}
        if cursor == b"0":
            return [found[name][1:] for name in sorted(found)]


def test_each_group_is_listed_with_what_it_has(space: Space) -> None:
    parked = ["a", "a", "ab", "b", "c", "a", "", "a:"]
    fill(space, {"a": 1, "b": 2, "d": 1}, parked, {"b": NOW - 5, "c": NOW - 7, "": NOW, "ab": NOW})
    before = space.dump()
    assert listed(space, "busy") == [[1, 3, 0, FIRST], [2, 1, NOW - 5, FIRST + 3], [1, 0, 0, 0]]
    assert listed(space, "turns") == [[0, 1, NOW, FIRST + 2], [0, 1, NOW - 7, FIRST + 4]]
    assert space.dump() == before


def test_stopped_groups_are_listed_with_their_dead_letters(space: Space) -> None:
    fill(space, {"a": 1}, ["a", "b"], {"c": NOW})
    letters = {"a": "7-0 8-0", "b": "9-0"}
    space.client.hset(space.key("GROUPS:STOPPED"), mapping=letters)
    assert listed(space, "busy") == [[1, 1, 0, FIRST, 0, b"", b"7-0 8-0"]]
    assert listed(space, "stopped") == [[0, 1, 0, FIRST + 1, 0, b"", b"9-0"]]


def test_groups_are_listed_with_their_limits_and_pauses(space: Space) -> None:
    fill(space, {}, ["a"], {})
    space.client.hset(space.key("GROUPS:LIMITS"), mapping={"a": "5 0/0/0"})
    space.client.zadd(space.key("GROUPS:PAUSES"), {"a": NOW + 7, "b": NOW})
    limited, paused = [0, 1, 0, FIRST, NOW + 7, b"5 0/0/0", b""], [0, 0, 0, 0, NOW, b"", b""]
    assert (listed(space, "limits"), listed(space, "pauses")) == ([limited], [limited, paused])


def test_many_groups_are_listed_in_several_calls(space: Space) -> None:
    names = [f"g{number}" for number in range(2000)]
    fill(space, dict.fromkeys(names[:1000], 1), names, dict.fromkeys(names[900:], NOW))
    assert len(listed(space, "busy", 10)) == 1000
    assert len(listed(space, "turns", 10)) == 1000
    metered = space.weigh("groups/list", "busy", "0", 10)
    assert len(metered.reply) < 5 * 100


def test_of_groups_with_long_messages_only_some_are_read(space: Space) -> None:
    fill(space, {}, [], {f"g{number}": NOW for number in range(30)})
    for name in (f"g{number}" for number in range(30)):
        member = f"{len(name):03}{name}{FIRST}{'x' * 100_000}"
        space.client.zadd(space.key("GROUPS:PARKED"), {member: 0})
    metered = space.weigh("groups/list", "turns", "0", 100)
    assert metered.reply[6::8].count(FIRST) == 11
    assert metered.reply[4::8] == [1] * 30


def pages(space: Space, wanted: int, *group: str) -> list[list[bytes]]:
    """Return what was moved aside, page by page."""
    space.client.set(space.key("GROUPS:WOKEN"), "mark 5 001a")
    after, found = b"", []
    while True:
        after, woken, *bodies = space.call("groups/peek", after, wanted, *group)
        assert woken == b"mark 5 001a"
        found.append(bodies)
        if not after:
            return found


def test_messages_that_were_moved_aside_are_shown_in_pages(space: Space) -> None:
    bodies = {f"001a{at:016}": b"a%d" % at for at in (2, 7)}
    bodies |= {f"002ab{at:016}": b"\xff\xffb%d" % at for at in (1, 3, 9)}
    bodies[f"000{4:016}"] = b"none"
    members = {key.encode() + body: 0 for key, body in bodies.items()}
    space.client.zadd(space.key("GROUPS:PARKED"), members)
    wanted = [b"none", b"a2", b"a7", *(b"\xff\xffb%d" % at for at in (1, 3, 9))]
    assert pages(space, 100) == [wanted]
    assert pages(space, 4) == [wanted[:4], wanted[4:]]
    assert [page for page in pages(space, 1) if page] == [[each] for each in wanted]
    assert pages(space, 100, "a") == [wanted[1:3]]
    assert pages(space, 2, "ab") == [wanted[3:5], wanted[5:]]
    assert pages(space, 100, "") == [wanted[:1]]
    assert pages(space, 100, "b") == [[]]


def test_a_page_of_long_messages_is_short(space: Space) -> None:
    long = b"x" * 100_000
    members = {b"001a%016d" % at + (b"short" if at < 1 else long): 0 for at in range(60)}
    space.client.zadd(space.key("GROUPS:PARKED"), members)
    metered = space.weigh("groups/peek", "", 1000)
    assert len(metered.reply) - 2 == 1 + 11
    assert metered.reply[1] == b""
    assert metered.largest < 3 * len(long)
    assert sum(map(len, pages(space, 1000))) == 60


def audited(space: Space, walk: str, repair: int = 0) -> tuple[set[tuple[bytes, bytes]], int]:
    """Return the problems with their groups, and how many calls that took."""
    after, calls = b"", 0
    found: set[tuple[bytes, bytes]] = set()
    while True:
        after, *problems = space.frozen().call("groups/audit", walk, after, repair)
        found |= {*zip(problems[::2], problems[1::2], strict=True)}
        calls += 1
        if not after:
            return found, calls


def fly(space: Space, *messages: tuple[str, str]) -> list[bytes]:
    """Let messages be in flight, pairs of a key and a group; return their members of RUNS."""
    for key, tag in messages:
        space.client.hset(space.key("GROUPS:FLIGHT"), key, f"={FIRST:016}{tag}")
    return [f"{len(tag):03}{tag}{FIRST:016}{key}".encode() for key, tag in messages]


@pytest.mark.parametrize("in_flight", [1, 3])
def test_an_audit_finds_and_mends_what_is_wrong_with_groups(space: Space, in_flight: int) -> None:
    record(space, in_flight)
    parked = ["free", "busy", "woken", "none"]
    slots = {"busy": 3, "wrong": 2, "gone": 1, "run": 2}
    fill(space, slots, parked, {"none": NOW})
    members = fly(
        space,
        *(("b1", "busy"), ("b2", "busy"), ("b3", "busy"), ("w", "wrong")),
        *(("m", "missing"), ("r1", "run"), ("r2", "run")),
    )
    stale = b"003run" + b"0" * 16 + b"stale"
    kept = [*members[:3], members[5], stale] if in_flight == 1 else [stale]
    space.client.zadd(space.key("GROUPS:RUNS"), dict.fromkeys(kept, 0))
    space.client.set(space.key("GROUPS:WOKEN"), f"9:ab {NOW} 005woken{FIRST:016}")
    wrong = {(b"wrong number in flight", tag) for tag in (b"wrong", b"gone", b"missing")}
    wrong |= {(b"not in flight", b"run")}
    wrong |= {(b"not in its run", b"run")} if in_flight == 1 else set()
    before = space.dump()
    assert audited(space, "slots") == (wrong, 1)
    assert audited(space, "turns") == ({(b"no turn", b"free")}, 1)
    assert space.dump() == before
    assert audited(space, "slots", 1) == (wrong, 1)
    assert audited(space, "turns", 1) == ({(b"no turn", b"free")}, 1)
    assert space.client.zscore(space.key("GROUPS:TURNS"), "free") == pytest.approx(NOW, abs=100)
    assert audited(space, "slots") == audited(space, "turns") == (set(), 1)
    assert busy(space) == {"busy": 3, "wrong": 1, "missing": 1, "run": 2}
    assert turns(space) == ["none", "free"]
    runs = [*members[:3], *members[5:]] if in_flight == 1 else []
    assert space.client.zrange(space.key("GROUPS:RUNS"), 0, -1) == sorted(runs)


def test_an_audit_reports_members_that_no_script_wrote(space: Space) -> None:
    record(space)
    strange = ["", "strange", "999a", f"001a{FIRST}"[:-1], "000"]
    fill(space, {}, ["a"], {})
    for key in ("PARKED", "RUNS"):
        space.client.zadd(space.key(f"GROUPS:{key}"), dict.fromkeys(strange, 0))
    found = {(b"not a message", b""), (b"no turn", b"a")}
    assert audited(space, "turns", 1) == (found, 1)
    assert audited(space, "slots", 1) == ({(b"not in flight", b"")}, 1)
    assert space.client.zcard(space.key("GROUPS:RUNS")) == 0
    assert space.client.zcard(space.key("GROUPS:PARKED")) == 6
    assert turns(space) == ["a"]


def test_an_audit_of_many_groups_takes_several_calls(space: Space) -> None:
    record(space)
    names = [f"g{number}" for number in range(250)]
    fill(space, dict.fromkeys(names, 1), [], {})
    for number, name in enumerate(names):
        member = f"{len(name):03}{name}{FIRST}{'x' * (40_000 if number >= 150 else 1)}"
        space.client.zadd(space.key("GROUPS:PARKED"), {member: 0})
    assert audited(space, "turns") == (set(), 5)
    fly(space, *((f"m{number}", "a") for number in range(1001)))
    assert audited(space, "slots") == (set(), 1)
    space.client.hdel(space.key("GROUPS:FLIGHT"), "m0")
    assert len(audited(space, "slots", 1)[0]) == 252
    assert audited(space, "turns") == ({(b"no turn", name.encode()) for name in names}, 5)
