"""reject: dead at once."""

from tests.queue.scripts.space import FUTURE, MIB, NOW, Space, body


def test_a_rejected_message_is_dead_with_key_body_reason_count_and_time(space: Space) -> None:
    space.lease("a", b"\xff\0 not its id", count=3, extended=f"7:{FUTURE}")
    assert space.frozen().reject((FUTURE, "a"), reason="no such user") == [1]
    [(_, letter)] = space.dump()["DEAD"]
    assert letter == {
        b"key": b"a",
        b"body": b"\xff\0 not its id",
        b"reason": b"no such user",
        b"count": b"3",
        b"time": b"%d" % NOW,
    }
    assert space.dump().keys() == {"DEAD"}


def test_a_message_on_its_first_receive_was_received_once(space: Space) -> None:
    space.lease("a")
    space.reject((FUTURE, "a"), reason="")
    assert space.dead == [(b"a", body("a"), "", 1)]


def test_dead_letters_with_one_key_do_not_overwrite_each_other(space: Space) -> None:
    for number in (1, 2):
        space.lease("a", b"%d" % number)
        space.reject((FUTURE, "a"))
    assert [body for _, body, _, _ in space.dead] == [b"1", b"2"]


def test_a_lease_without_a_body_is_rejected_with_an_empty_one(space: Space) -> None:
    space.client.zadd(space.key("BACKUP"), {"gone": FUTURE})
    assert space.reject((FUTURE, "gone")) == [1]
    assert space.dead == [(b"gone", b"", "bad", 1)]


def test_one_call_rejects_a_mebibyte_and_says_where_it_stopped(space: Space) -> None:
    long = b"x" * (3 * MIB // 8)
    for key in "acde":
        space.lease(key, long)
    space.lease("b", deadline=7)
    space.lease("f", deadline=7)
    weighed = space.weigh("nack", "reject", 0, "bad", FUTURE, 0, 6, *"abcdef")
    assert weighed.reply == [3, 2, 0, 5]
    assert weighed.total < 3 * len(long) + 1000
    assert [letter[0] for letter in space.dead] == [b"a", b"c", b"d"]
    assert space.reject((FUTURE, "e", "f")) == [1, 2]


def test_one_call_rejects_a_hundred(space: Space) -> None:
    keys = [f"{number}" for number in range(101)]
    for key in keys:
        space.lease(key)
    assert space.reject((FUTURE, *keys)) == [100, 0, 101]
    assert len(space.dead) == 100
    assert space.reject((FUTURE, *keys[100:])) == [1]
