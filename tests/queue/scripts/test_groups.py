"""groups/list: the groups that a consumer has met."""

from __future__ import annotations

from typing import Any

from tests.queue.scripts.space import NOW, Space


def fill(space: Space, busy: dict[str, int], parked: list[str], turns: dict[str, int]) -> None:
    """Put groups into their keys; each name in ``parked`` stands for one message."""
    space.client.hset(space.key("GROUPS:BUSY"), mapping={"": 99, **busy})
    members = {f"{len(name):03}{name}{at:016}body": 0 for at, name in enumerate(parked)}
    space.client.zadd(space.key("GROUPS:PARKED"), members)
    space.client.zadd(space.key("GROUPS:TURNS"), turns)


def listed(space: Space, which: str, wanted: int = 100) -> list[list[Any]]:
    """Return the columns of the groups, sorted by name."""
    cursor: Any = "0"
    found: dict[str, list[Any]] = {}
    while True:
        now, cursor, *columns = space.frozen().call("groups/list", which, cursor, wanted)
        assert now == NOW
        rows = [columns[at : at + 4] for at in range(0, len(columns), 4)]
        found |= {row[0].decode(): row for row in rows}
        if cursor == b"0":
            return [found[name][1:] for name in sorted(found)]


def test_each_group_is_listed_with_what_it_has(space: Space) -> None:
    parked = ["a", "a", "ab", "b", "c", "a", "", "a:"]
    fill(space, {"a": 1, "b": 2, "d": 1}, parked, {"b": NOW - 5, "c": NOW - 7, "": NOW, "ab": NOW})
    before = space.dump()
    assert listed(space, "busy") == [[1, 3, 0], [2, 1, NOW - 5], [1, 0, 0]]
    assert listed(space, "turns") == [[0, 1, NOW], [0, 1, NOW - 7]]
    assert space.dump() == before


def test_many_groups_are_listed_in_several_calls(space: Space) -> None:
    names = [f"g{number}" for number in range(2000)]
    fill(space, dict.fromkeys(names[:1000], 1), names, dict.fromkeys(names[900:], NOW))
    assert len(listed(space, "busy", 10)) == 1000
    assert len(listed(space, "turns", 10)) == 1000
    metered = space.weigh("groups/list", "busy", "0", 10)
    assert len(metered.reply) < 4 * 100
