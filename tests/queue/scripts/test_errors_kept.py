"""Why messages failed: noted by nack, kept while they live, moved to their dead letters."""

from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ResponseError

from tests.queue.scripts.grouped import record
from tests.queue.scripts.space import FUTURE, MIB, NOW, PAST, SECOND, Space, body

A, B = b'{"type":"A"}', b'{"type":"B"}'


def line(count: int, error: bytes, at: int = NOW) -> bytes:
    return b"%d:%d:%s" % (count, at, error)


def test_an_error_is_noted_and_stays_with_the_message(space: Space) -> None:
    space.lease("a")
    assert space.frozen().nack((FUTURE, 0, "a"), errors=(1, A)) == [1]
    assert space.noted("a") == [line(1, A)]
    popped = space.frozen().pop()
    assert space.frozen(NOW + 9).nack((popped.deadline, 0, "a"), errors=(1, B)) == [1]
    assert space.noted("a") == [line(1, A), line(2, B, NOW + 9)]


def test_each_message_gets_its_own_error_or_none(space: Space) -> None:
    for key in "abcd":
        space.lease(key)
    space.frozen().nack((FUTURE, 0, "a", "b"), (FUTURE, 5, "c", "d"), errors=(1, A, 2, "", 3, B))
    assert [space.noted(key) for key in "abcd"] == [[line(1, A)], [], [line(1, B)], []]


def test_only_the_last_five_are_kept(space: Space) -> None:
    space.lease("a", count=9)
    space.note("a", body("a"), *(line(count, A) for count in range(1, 6)))
    space.frozen().nack((FUTURE, 0, "a"), errors=(1, B))
    assert space.noted("a") == [*(line(count, A) for count in range(2, 6)), line(9, B)]


def test_without_errors_no_key_is_made(space: Space) -> None:
    space.lease("a")
    space.lease("b")
    space.nack((FUTURE, 0, "a"))
    space.nack((FUTURE, 0, "b"), errors=(1, ""))
    assert "ERRORS" not in space.dump()


def test_a_nack_without_an_error_keeps_the_earlier_ones(space: Space) -> None:
    space.lease("a", count=2)
    space.note("a", body("a"), line(1, A))
    space.nack((FUTURE, 0, "a"))
    assert space.noted("a") == [line(1, A)]


@pytest.mark.parametrize(
    ("key", "noted"), [("a", body("b")), ("a", body("a", padding=20)), ("a", body("a"))]
)
def test_a_note_is_never_attached_to_another_message_with_the_same_id(
    space: Space, key: str, noted: bytes
) -> None:
    """A release that does not know of notes leaves them behind at an ack."""
    space.lease(key)  # a first delivery, so the same body was pushed again
    space.note(key, noted, line(1, A))
    space.frozen().nack((FUTURE, 0, key), errors=(1, B))
    assert space.noted(key) == [line(1, B)]


@pytest.mark.parametrize("end", ["nack", "reject"])
def test_a_dead_letter_gets_the_errors(space: Space, end: str) -> None:
    space.lease("a", count=2)
    space.note("a", body("a"), line(1, A))
    if end == "nack":
        assert space.frozen().nack((FUTURE, 0, "a"), max_receives=2, errors=(1, B)) == [1, [1]]
    else:
        assert space.frozen().reject((FUTURE, "a"), errors=(1, B)) == [1]
    assert space.dead_lettered == [[line(1, A), line(2, B)]]
    assert space.dump().keys() == {"DEAD"}


@pytest.mark.parametrize("end", ["nack", "reject", "pop"])
def test_a_dead_letter_never_gets_the_errors_of_another_message(space: Space, end: str) -> None:
    space.lease("a", deadline=PAST if end == "pop" else FUTURE, count=2)
    space.note("a", body("b"), line(1, A))
    if end == "nack":
        space.nack((FUTURE, 0, "a"), max_receives=2)
    elif end == "reject":
        space.reject((FUTURE, "a"))
    else:
        space.frozen().pop(max_receives=2)
    assert space.dead_lettered == ([[line(2, b"")]] if end == "pop" else [[]])


def test_a_message_whose_last_lease_ended_says_so(space: Space) -> None:
    space.lease("a", deadline=PAST, count=3)
    space.note("a", body("a"), line(1, A))
    space.frozen().pop(max_receives=3)
    assert space.dead_lettered == [[line(1, A), line(3, b"")]]
    assert space.dump().keys() == {"DEAD"}


def test_a_limit_that_was_lowered_invents_no_end_of_a_lease(space: Space) -> None:
    space.delay("a", due=PAST, count=3)
    space.note("a", body("a"), line(3, A))
    space.frozen().pop(max_receives=2)
    assert space.dead_lettered == [[line(3, A)]]


@pytest.mark.parametrize(
    "settle", ["ack", "ack with groups", "ack_id", "pop", "claim", "purge", "drain"]
)
def test_a_note_goes_with_its_message(space: Space, settle: str) -> None:
    space.lease("a", deadline=PAST if settle == "claim" else FUTURE, count=2)
    space.note("a", body("a"), line(1, A))
    if settle == "ack":
        space.ack((FUTURE, "a"))
    elif settle == "ack with groups":
        record(space)
        space.call("ack", FUTURE, 1, "a")
    elif settle == "ack_id":
        space.call("ack_id", "a")
    elif settle == "pop":
        space.push(body("b"))  # an empty queue would be swept
        space.pop(settled=[(FUTURE, "a")])
    elif settle == "claim":
        space.know(epoch=1)
        space.call("claims/claim", 1, 1, 10, 0, 60 * SECOND, "right")
    elif settle == "purge":
        space.call("purge", 0)
    else:
        space.call("drain", 10, "right")
    assert "ERRORS" not in space.dump()


def test_with_requeue_back_no_note_outlives_the_key_of_a_message_without_an_id(
    space: Space,
) -> None:
    raw = b'{"task":1}'
    space.push(raw)
    first = space.frozen().pop(timeout=SECOND)
    ((key, _),) = first.messages
    space.frozen().nack((first.deadline, 0, key), errors=(1, A))
    assert space.noted(key) == [line(1, A)]
    space.frozen().pop(timeout=SECOND)
    (again,) = space.frozen(NOW + 2 * SECOND).pop(requeue="back").messages
    assert again[0] != key
    assert space.dump().keys() == {"BACKUP", "CONTEXT"}


def test_with_requeue_back_a_note_follows_the_message_onto_the_list(space: Space) -> None:
    space.lease("a")
    space.frozen().nack((FUTURE, -1, "a"), errors=(1, A))
    popped = space.frozen().pop(requeue="back")
    assert popped.counts == [2]
    space.frozen().nack((popped.deadline, -1, "a"), errors=(1, B))
    assert space.noted("a") == [line(1, A), line(2, B)]


def test_a_message_without_an_id_leaves_no_note_on_the_list(space: Space) -> None:
    key = b"\x001:0001"
    space.lease(key, b"no id", count=2)
    space.note(key, b"no id", line(1, A))
    space.nack((FUTURE, -1, key), errors=(1, B))
    assert space.dump() == {"": [b"no id"]}


def test_an_empty_queue_sweeps_stale_notes_a_hundred_at_a_time(space: Space) -> None:
    space.lease("a", count=2)
    space.note("a", body("a"), line(1, A))
    for number in range(150):
        space.note(f"gone {number}", b"body", line(1, A))
    space.pop()
    left = space.client.hlen(space.key("ERRORS"))
    assert 51 <= left <= 52  # the sample may contain the one that stays
    for _ in range(2):
        space.pop()
    assert space.client.hkeys(space.key("ERRORS")) == [b"a"]


def test_an_audit_deletes_stale_notes(space: Space) -> None:
    space.lease("a", count=2)
    space.note("a", body("a"), line(1, A))
    space.note("gone", b"body", line(1, A))
    assert space.call("audit_scan", "errors", 0, 1)[2:] == [b"stale failure", b"gone"]
    assert space.client.hkeys(space.key("ERRORS")) == [b"a"]


@pytest.mark.parametrize(
    "errors",
    [(1,), (2, A), (0, A), ("x", A), (1, b"two\nlines"), (1, b"x" * 8193), (1, A, 1, B)],
)
@pytest.mark.parametrize("way", ["nack", "reject"])
def test_what_is_no_error_is_refused_before_anything_is_changed(
    space: Space, way: str, errors: tuple[Any, ...]
) -> None:
    space.lease("a")
    before = space.dump()
    with pytest.raises(ResponseError, match="ACKQ_ARGUMENT"):
        space.nack((FUTURE, 0, "a"), way=way, errors=errors)
    assert space.dump() == before


def test_a_nack_with_errors_reads_a_mebibyte_and_says_where_it_stopped(space: Space) -> None:
    long = b"x" * (MIB // 3 + 1)
    for key in "abcde":
        space.lease(key, long)
    weighed = space.weigh("nack", "nack", 0, "", FUTURE, 0, 5, *"abcde", "errors", 5, A)
    assert weighed.reply == [3, 0, 4]
    assert weighed.total < 3 * len(long) + 1000
    assert space.noted("c")
    assert not space.noted("d")


TEN = [f"{number}" for number in range(10)]
#: Calls that read the notes of ten messages, and what they return.
READING: dict[str, tuple[Callable[[Space], Any], Any]] = {
    "nack": (
        lambda space: space.nack((FUTURE, 0, *TEN), max_receives=2, errors=(10, b"{}")),
        [6, 0, 7, [1, 2, 3, 4, 5, 6]],
    ),
    "return": (lambda space: space.nack((FUTURE, 0, *TEN), errors=(10, b"{}")), [5, 0, 6]),
    "reject": (lambda space: space.reject((FUTURE, *TEN)), [6, 0, 7]),
    "cancel": (
        lambda space: space.call("cancel", 0, *(each for key in TEN for each in ("", key))),
        [6, 6],
    ),
    "pop": (lambda space: space.pop(10, max_receives=2).status, "again"),
    "pop of what is due": (lambda space: space.pop(10, max_receives=2).status, "again"),
}


@pytest.mark.parametrize("way", READING)
def test_one_call_reads_a_quarter_of_a_mebibyte_of_notes(space: Space, way: str) -> None:
    """Each is one of the message itself, or of another with its id."""
    put = space.delay if way in ("cancel", "pop of what is due") else space.lease
    for key in TEN:
        put(key, None, PAST if way.startswith("pop") else FUTURE, 2)
        noted = body(key) if int(key) % 2 else b"another"
        space.note(key, noted, line(1, b"x" * 50_000))
    call, reply = READING[way]
    assert call(space) == reply
    assert len(space.dead) == (0 if way == "return" else 6)


def test_a_redriven_message_starts_without_errors(space: Space) -> None:
    space.lease("a")
    space.frozen().reject((FUTURE, "a"), errors=(1, A))
    space.frozen().call("redrive", 1, "", 0)
    space.frozen().pop()
    assert "ERRORS" not in space.dump()
