"""groups/cancel: chosen messages that were moved aside become dead letters."""

from tests.queue.scripts.space import NOW, Space, body, listed_field


def park(space: Space, tag: str, *bodies: bytes, at: int = NOW - 900) -> None:
    """Park messages of a group."""
    head = f"{len(tag):03}{tag}"
    members = {f"{head}{at + n}".encode() + each: 0 for n, each in enumerate(bodies)}
    space.client.zadd(space.key("GROUPS:PARKED"), members)


def left(space: Space) -> list[bytes]:
    """Return what is still parked."""
    members = space.client.zrange(space.key("GROUPS:PARKED"), 0, -1)
    return [member[3 + int(member[:3]) + 16 :] for member in members]


def cancel(space: Space, *ids: str) -> list[int]:
    """Cancel, and return how many were canceled by each call."""
    after = b""
    counts: list[int] = []
    while not counts or after:
        after, count = space.call("groups/cancel", after, *ids)
        counts.append(count)
    return counts


def test_the_chosen_ones_leave_and_a_group_without_messages_has_no_turn(space: Space) -> None:
    park(space, "x", body("a"), body("b"), b'{"x":"y","id":"c"}')
    park(space, "xx", body("a"), at=NOW - 950)
    park(space, "", body("d"))
    space.client.zadd(space.key("GROUPS:TURNS"), {"x": NOW, "xx": NOW, "": NOW})
    before = space.dump()
    assert cancel(space, "none", "y") == [0]
    assert space.dump() == before
    assert cancel(space, "a", "c", "d") == [4]
    assert left(space) == [body("b")]
    assert space.client.zrange(space.key("GROUPS:TURNS"), 0, -1) == [b"x"]
    assert sorted(letter[0] for letter in space.dead) == [b"a", b"a", b"c", b"d"]
    assert {letter[2:] for letter in space.dead} == {("canceled", 0)}


def test_what_is_noted_of_the_message_goes_with_it(space: Space) -> None:
    for id, noted in (("a", body("a")), ("b", b"another")):
        space.list_note(id, noted, 3, canceled=1, since=NOW)
        space.note(id, noted, b"2:7:{}")
    park(space, "x", body("a"), body("b"))
    assert cancel(space.frozen(), "a", "b") == [2]
    assert sorted((letter[0], letter[3]) for letter in space.dead) == [(b"a", 3), (b"b", 0)]
    assert sorted(space.dead_lettered) == [[], [b"2:7:{}"]]
    assert space.listed == {listed_field("b", b"another"): (3, 1)}


def test_one_call_cancels_fifty_and_reads_a_mebibyte(space: Space) -> None:
    ids = [f"{number:03}" for number in range(230)]
    park(space, "x", *map(body, ids))
    assert cancel(space, *ids) == [50, 50, 50, 50, 30]
    park(space, "x", *(b'{"id":"%03d","x":"%s"}' % (n, b"x" * 100_000) for n in range(25)))
    assert cancel(space, "000", "011", "024") == [1, 1, 1]
    assert len(left(space)) == 22
    space.client.delete(space.key("GROUPS:PARKED"))
    long = [b'{"id":"l%d","x":"%s"}' % (n, b"x" * 600_000) for n in range(9)]
    park(space, "x", *map(body, ids[:20]), *long)
    metered = space.weigh("groups/cancel", "", *(f"l{n}" for n in range(9)))
    assert metered.reply[1] == 1
    assert metered.largest < 2 * 600_100
    space.client.delete(space.key("GROUPS:PARKED"))
    park(space, "x", *(b'{"x":"%s","id":"e%d"}' % (b"x" * 40_000, n) for n in range(4)))
    assert cancel(space, "e0", "e1", "e2", "e3") == [1, 1, 1, 1]
    park(space, "x", *(body(f"{number:04}") for number in range(600)))
    assert cancel(space, "0599") == [0, 1]
