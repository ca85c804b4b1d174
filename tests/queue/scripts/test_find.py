"""find and search: where messages are, without taking them."""

from typing import Any

import pytest

from tests.queue.scripts.space import CLAIM, FUTURE, MIB, NOW, PAST, Space, body, chunked


def find(space: Space, *keys: str, texts: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the key, place, score, rank and count of each message found."""
    _, _, looked, *values = space.call("find", len(texts), *texts, *keys)
    assert looked == len(keys)
    return [tuple(values[at : at + 5]) for at in range(0, len(values), 6)]


def search(
    space: Space, place: str, *texts: str, start: int = 2**53 - 1
) -> list[tuple[int, bytes]]:
    """Search a whole list; return offsets and bodies."""
    found: list[tuple[int, bytes]] = []
    left = start
    while left:
        reply = space.call("search", place, left, space.end, *texts)
        left = int(reply[0])
        found += [(int(offset), text) for offset, text in chunked(reply[2:])]
    return found


def test_it_tells_what_is_leased_expired_delayed_and_due(space: Space) -> None:
    space.lease("expired", deadline=PAST)
    space.lease("running", deadline=NOW + 1, count=4)
    space.delay("due", due=NOW, count=2)
    space.delay("later")
    full = space.frozen()
    now, expired, looked, *_ = full.call("find", 0, "running")
    assert (now, expired, looked) == (b"%d" % NOW, 1, 1)
    assert find(full, "expired", "running", "gone", "due", "later") == [
        (b"expired", b"backup", b"%d" % PAST, 0, 1),
        (b"running", b"backup", b"%d" % (NOW + 1), 1, 4),
        (b"due", b"delayed", b"%d" % NOW, 0, 2),
        (b"later", b"delayed", b"%d" % FUTURE, 1, 0),
    ]


def test_a_body_that_lacks_a_text_is_left_out(space: Space) -> None:
    space.lease("a", b'{"id":"a","customer":17}')
    space.lease("b", b'{"id":"b","name":"x\\u0031"}')
    space.lease("c", b'{"id":"c","name":"x\\ny"}')
    space.lease("d", b'{"id":"d","path":"x\\/y"}')
    found = find(space, "a", "b", "c", "d", texts=("customer", "17"))
    assert [row[0] for row in found] == [b"a", b"b", b"d"]


def test_the_end_of_a_very_long_body_may_contain_a_text(space: Space) -> None:
    """A script searches a bounded part of it, and the client the rest."""
    space.push(b"x" * MIB, b"x" * MIB + b"17", b"x")
    assert search(space, "ready", "17") == [(1, b"x" * MIB + b"17")]
    space.lease("leased", b"x" * MIB + b"17")
    assert [row[0] for row in find(space, "leased", texts=("17",))] == [b"leased"]


def test_one_call_looks_up_a_mebibyte(space: Space) -> None:
    for key in "abcd":
        space.lease(key, body(key, MIB // 2))
    reply = space.call("find", 0, *"abcd")
    assert reply[2] == 2
    assert len(reply) == 3 + 6 * 2


def test_a_message_without_a_body_is_found_with_an_empty_one(space: Space) -> None:
    space.lease("a")
    space.client.hdel(space.key("CONTEXT"), "a")
    assert space.call("find", 0, "a")[3:] == [b"a", b"backup", b"%d" % FUTURE, 0, 1, b""]


@pytest.mark.parametrize("end", ["right", "left"])
def test_offsets_are_those_of_the_delivery(space: Space, end: str) -> None:
    if end == "left":
        space = space.popped_from_the_left()
    space.push(*(body(f"{name}-{n}") for n in range(40) for name in "ab"))
    assert sorted(search(space, "ready", "b-")) == [(2 * n + 1, body(f"b-{n}")) for n in range(40)]
    near = sorted(search(space, "ready", "b-", start=4))
    assert near == [(1, body("b-0")), (3, body("b-1"))]


def test_the_hand_off_list_is_taken_from_the_right_whatever_the_end(left: Space) -> None:
    left.hand_over(body("first"), body("second"))
    reply = left.call("search", "handoff", 9, "right", "id")
    assert chunked(reply[2:]) == [(b"1", body("second")), (b"0", body("first"))]


def test_a_held_list_is_searched(space: Space) -> None:
    space.hold(body("a"), body("b"))
    reply = space.call("search", "held", 9, "right", '"b"')
    assert reply == [b"0", 2, b"1", body("b")]
    space.client.delete(space.key(CLAIM))
    assert space.call("search", "held", 9, "right", '"b"') == [b"0", 0]


def test_what_is_taken_and_pushed_meanwhile_hides_no_message(space: Space) -> None:
    """The next window begins where the last one ended, counted from the end that is taken."""
    ids = [f"m{n}" for n in range(5000)]
    space.push(*map(body, ids))
    seen, left, taken, number = set(), 2**53 - 1, 0, 0
    while left:
        reply = space.call("search", "ready", left, "right", "id")
        left = int(reply[0])
        seen |= {text for _, text in chunked(reply[2:])}
        for _ in range(300):
            space.client.rpop(space.name)
            space.push(body(f"new-{number}"))
            number += 1
        taken += 300
    assert {body(each) for each in ids[taken:]} <= seen


def test_one_call_searches_two_thousand_messages_or_a_mebibyte(space: Space) -> None:
    space.push(*(body(f"{n}") for n in range(2500)))
    left, size = space.call("search", "ready", 2**53 - 1, "right", "nothing")
    assert size == 2500
    assert 2500 - 2016 <= int(left) <= 500
    space.client.delete(space.name)
    space.push(*(body(f"{n}", MIB // 2) for n in range(4)))
    assert space.call("search", "ready", 2**53 - 1, "right", "nothing") == [b"2", 4]


def test_a_list_is_read_one_two_four_at_a_time(space: Space) -> None:
    space.push(*(body(f"{n}", MIB // 10) for n in range(20)))
    assert space.weigh("search", "ready", 2**53 - 1, "right", "nothing").total < 12 * MIB // 10


def test_in_the_middle_of_a_long_list_a_call_reads_fewer_and_longer_slices(space: Space) -> None:
    fill = "for n = 1, 400000 do redis.call('LPUSH', KEYS[1], '{}') end"
    space.client.eval(fill, 1, space.name)
    left, _ = space.call("search", "ready", 200_000, "right", "nothing")
    assert 600 < 200_000 - int(left) < 1500
    left, _ = space.call("search", "ready", 19_000, "right", "nothing")
    assert 2000 <= 19_000 - int(left) < 2016
    space.client.unlink(space.name)


def test_in_the_middle_of_a_list_of_long_messages_a_call_passes_over_fewer(space: Space) -> None:
    for _ in range(210):
        space.client.lpush(space.name, *[b"x" * 400] * 1000)
    left, _ = space.call("search", "ready", 105_000, "right", "nothing")
    # Each way counts as 164,000, so there are 31: 1, 2, 4, 8, 16, 32 and 64 messages at a time.
    assert 105_000 - int(left) == 63 + 25 * 64
    space.client.unlink(space.name)


def test_a_text_is_looked_for_by_its_beginning(space: Space) -> None:
    space.push(body("a"), body("b" * 64 + "c"))
    assert search(space, "ready", "b" * 64 + "d") == [(1, body("b" * 64 + "c"))]


def test_keys_of_a_set_come_in_pages(space: Space) -> None:
    for n in range(3):
        space.lease(f"leased-{n}")
        space.delay(f"delayed-{n}")
    for place in ("backup", "delayed"):
        cursor, size, *keys = space.call("search", place, 0, "right")
        assert (cursor, size) == (b"0", 3)
        name = "leased" if place == "backup" else "delayed"
        assert sorted(keys) == [f"{name}-{n}".encode() for n in range(3)]


def test_dead_letters_are_searched_from_the_newest_on(space: Space) -> None:
    entries = [space.die(f"key-{n}", body(f"m{n % 2}")) for n in range(6)]
    after, looked, *letters = space.call("search", "dead", "+", "right", '"m1"')
    assert (after, looked) == (b"", 6)
    assert [letter[0].decode() for letter in letters] == [entries[5], entries[3], entries[1]]
    _, looked, *letters = space.call("search", "dead", entries[2], "right", "key-0")
    assert looked == 2
    assert [letter[0].decode() for letter in letters] == [entries[0]]


def test_a_dead_letter_without_a_body_is_left_to_the_client(space: Space) -> None:
    """Its key may be the id that is wanted, and is not written as in JSON."""
    entry = space.die('a"b', b"")
    space.client.xadd(space.key("DEAD"), {"a field": "of another program", "body": "x"})
    _, looked, *letters = space.call("search", "dead", "+", "right", 'a\\"b')
    assert (looked, [letter[0].decode() for letter in letters]) == (2, [entry])


def test_one_call_searches_five_hundred_dead_letters_or_a_mebibyte(space: Space) -> None:
    with space.batched() as keys:
        for n in range(600):
            keys.client.xadd(keys.key("DEAD"), {"key": str(n), "body": "x"})
    after, looked, *_ = space.call("search", "dead", "+", "right", "nothing")
    assert 500 <= looked < 520
    assert after
    after, looked, *_ = space.call("search", "dead", after, "right", "nothing")
    assert after == b""
    space.client.delete(space.key("DEAD"))
    for n in range(4):
        space.die(str(n), body(str(n), MIB // 2))
    after, looked, *_ = space.call("search", "dead", "+", "right", "nothing")
    assert looked <= 3
    assert after
