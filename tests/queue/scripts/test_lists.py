"""overview/lists: the figures of several queues are those of stats, oldest and watch."""

from itertools import pairwise
from typing import Any

import pytest
from redis.exceptions import ResponseError

from tests.queue.scripts.space import FUTURE, NOW, Space, body

MEMBERS = ("specversion", "made")
TIMED = b'{"id":"a","made":1}'
MINUTE = 60_000


def figures(space: Space, *others: Space, window: int = MINUTE) -> Any:
    """Return the figures of each queue that was read, those of ``space`` first."""
    frozen = space.frozen()
    text, keys = frozen._text_and_keys("overview/lists", ())
    for other in others:
        keys += other._text_and_keys("overview/lists", ())[1]
    now, *found = space.client.eval(text, len(keys), *keys, window, *MEMBERS)
    assert now == NOW
    return found


def expected(space: Space) -> list[Any]:
    """Return what the scripts for one queue reply."""
    frozen = space.frozen()
    _, *counts = frozen.call("watch", MINUTE)
    workers = space.client.zcount(space.key("WORKERS:SEEN"), f"({NOW}", "+inf")
    oldest = frozen.call("oldest", "right", *MEMBERS)[1:]
    return [*frozen.call("stats"), *oldest, workers, *counts[:2], counts[2:]]


def beside(space: Space, number: int) -> Space:
    """Return the space of another queue."""
    return Space(space.client, f"{space.name}{number}", space.directory)


def test_the_figures_are_those_of_the_scripts_for_one_queue(space: Space) -> None:
    def hold_claims() -> None:
        space.hold(body("b"), until=NOW + 1)
        space.hold(body("c"), body("d"), until=NOW, suffix="CLAIM:g:2")
        space.hold(body("e"), until=NOW - 9, suffix="CLAIM:g:3")
        space.client.hset(space.key("HELDROWS"), space.key("CLAIM:g:3"), 0)

    def hold_staged() -> None:
        space.hold(body("f"), until=0, suffix="STAGED:w:1:delayed")
        space.hold(body("g"), until=0, suffix="STAGED:CLAIM:1:t")

    changes = (
        lambda: space.delay("later", due=NOW + 1),
        lambda: space.lease("running", deadline=NOW + 1),
        hold_staged,
        lambda: space.hold(body("h"), body("i"), until=0, suffix="STAGED:w:2:t"),
        hold_claims,
        lambda: space.lease("ended", deadline=NOW),
        lambda: space.lease("ended before", deadline=NOW - 5),
        lambda: space.delay("due", due=NOW - 3),
        lambda: space.delay("due before", due=NOW - 7),
        lambda: space.push(TIMED, body("a")),
        lambda: space.hand_over(b'{"specversion":1}', b"{}"),
        lambda: space.die("dead", b"body"),
        lambda: space.client.set(space.key("PAUSED"), 1),
        lambda: space.client.zadd(space.key("WORKERS:SEEN"), {"a": NOW, "b": NOW + 1, "c": FUTURE}),
        lambda: space.client.hincrby(space.key("COUNTERS"), "acked", 7),
    )
    seen = [figures(space)]
    assert seen == [
        [[0] * 16 + [b"", 0, 0, 0, [b"since", str(NOW).encode(), b"live", b"0", b"held", b"0"]]]
    ]
    for change in changes:
        change()
        found = figures(space)
        assert found == [expected(space)]
        seen.append(found)
    assert all(before != after for before, after in pairwise(seen))


@pytest.mark.parametrize("filler", [0, 1])
def test_a_body_that_is_too_long_or_without_a_time_is_not_returned(
    space: Space, filler: int
) -> None:
    size = 65_536 - len(b'{"made":1,"x":""}') + filler
    for each in (body("plain"), b'{"remade":1}', b'{"made":1,"x":"%s"}' % (b"x" * size)):
        space.client.delete(space.key(""))
        space.push(each)
        assert figures(space) == [expected(space)]


def test_a_queue_with_a_wrong_key_leaves_the_others_readable(space: Space) -> None:
    others = [beside(space, number) for number in range(10)]
    wrong = ("", "BACKUP", "HANDOFF", "DELAYED", "DEAD", "HELD", "HELDROWS", "COUNTERS")
    space.push(body("a"))
    for each, suffix in zip(others, wrong, strict=False):
        each.client.set(each.key(suffix), "text")
    others[-2].client.set(others[-2].key("WORKERS:SEEN"), "text")
    others[-1].push(TIMED)
    found = figures(space, *others)
    assert [isinstance(each, bytes) and b"WRONGTYPE" in each for each in found] == [
        False,
        *[True] * len(wrong),
        False,
        False,
    ]
    assert found[-2][17] == -1  # its workers are not known
    assert found[-1] == expected(others[-1])
    # Where a type was wrong, nothing was changed.
    assert not any(other.client.exists(other.key("COUNTERS")) for other in others[:7])


def test_counting_goes_on_for_the_longest_window(space: Space) -> None:
    figures(space, window=0)
    assert space.dump() == {}
    assert figures(space, window=0)[0][-1] == []
    figures(space)
    assert space.client.pttl(space.key("COUNTERS")) > MINUTE - 10_000
    figures(space, window=10 * MINUTE)
    figures(space)
    assert space.client.pttl(space.key("COUNTERS")) > 9 * MINUTE
    assert figures(space, window=0)[0][-1] == []


def test_one_call_walks_a_hundred_lists_and_reads_32_kibibytes_of_bodies(space: Space) -> None:
    others = [beside(space, number) for number in range(4)]
    for other in others:
        held = {other.key(f"CLAIM:g:{number}"): FUTURE for number in range(51)}
        other.client.zadd(other.key("HELD"), held)
    assert len(figures(*others)) == 2
    for other in others:
        other.client.delete(other.key("HELD"))
        other.push(b"x" * 20_000)
    assert len(figures(*others)) == 2
    for other in others:
        other.client.delete(other.key(""))
        other.push(b"x" * 100_000)
    assert len(figures(*others)) == 1


def test_an_argument_out_of_range_is_refused(space: Space) -> None:
    for args in (
        (-1, *MEMBERS),
        (0.5, *MEMBERS),
        ("nan", *MEMBERS),
        ("", *MEMBERS),
        (604_800_001, *MEMBERS),
        (0, "made"),
    ):
        with pytest.raises(ResponseError, match="ACKQ_ARGUMENT overview/lists"):
            space.call("overview/lists", *args)
    with pytest.raises(ResponseError, match="ACKQ_ARGUMENT overview/lists"):
        space.call("overview/lists", 0, *MEMBERS, lists=["and one more"])
