"""What the operations of RSMQ ask for between two replies, and its values, with no server."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ResponseError

from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.errors import (
    ConfigurationError,
    InvalidValue,
    KeyTypeError,
    MessageTooLong,
    QueueExists,
    QueueNotFound,
    UnknownOutcome,
)
from ackq.rsmq import operations as rsmq
from ackq.rsmq.values import (
    QueueAttributes,
    RSMQDeadLetter,
    RSMQSpec,
    check_maxsize,
    check_namespace,
)
from tests.steps import play

SPEC = RSMQSpec("ns", outside=SYSTEM)
KEYS = SPEC.keys("q")
ID = "hod4lweixf" + "A" * 22


def _visibility() -> Operation[bool]:
    return rsmq.change_message_visibility(SPEC, "q", ID, 5)


def test_an_operation_on_no_queue_names_it_and_its_namespace() -> None:
    operations: tuple[Operation[Any], ...] = (
        rsmq.delete_queue(SPEC, "q"),
        rsmq.attributes(SPEC, "q"),
        rsmq.counters(SPEC, "q"),
        _visibility(),
        rsmq.redrive(SPEC, "q", 5, ()),
    )
    for operation in operations:
        with pytest.raises(QueueNotFound, match="no 'q' in 'ns'"):
            play(operation, b"missing")
    for operation in (
        rsmq.send_message(SPEC, "q", "x", None),
        rsmq.receive_messages(SPEC, "q", 1, None, None),
    ):
        with pytest.raises(QueueNotFound, match="no 'q' in 'ns'"):
            play(operation, [b"missing"])
        steps = rsmq.send_message(SPEC, "q", "x", None)
        next(steps)
        with pytest.raises(InvalidValue, match="vt='\ufffd'"):
            steps.send([b"bad", b"vt", b"\xff"])


def test_a_queue_is_created_once_and_a_key_of_another_type_is_named() -> None:
    (asked,), _ = play(rsmq.create_queue(SPEC, "q", 30, 5, -1), b"ok")
    assert asked.args == (2, KEYS.hash, b"ns:QUEUES", "q", 30, 5, -1)
    with pytest.raises(QueueExists, match="'q' keeps"):
        play(rsmq.create_queue(SPEC, "q", 30, 5, -1), b"exists")
    steps = rsmq.create_queue(SPEC, "q", 30, 5, -1)
    next(steps)
    found: Any = steps.throw(ResponseError("WRONGTYPE Operation against a key"))
    with pytest.raises(KeyTypeError, match=r"RSMQ queue 'q'.*is a stranger"):  # noqa: PT012
        while isinstance(found, Request) and found.args[0] == b"TYPE":
            found = steps.send(b"stranger")


def test_the_names_of_queues_are_sorted_text_even_if_others_wrote_them() -> None:
    (asked,), names = play(rsmq.list_queues(SPEC), [b"b", b"\xff", b"a"])
    assert names == ["a", "b", "\ufffd"]
    assert asked.resend


def test_only_given_attributes_are_set() -> None:
    changes: dict[str, int | None] = {"vt": 5, "delay": None, "maxsize": -1}
    reply = [b"5.5", b"0", b"-1", b"7", None, b"1700000000", b"1700000000123", 3, 2]
    (asked,), found = play(rsmq.attributes(SPEC, "q", changes), reply)
    assert asked.args == (2, KEYS.zset, KEYS.hash, "vt", 5, "maxsize", -1)
    assert asked.resend
    assert found == QueueAttributes(5.5, 0, -1, 7, 0, 1_700_000_000, 1_700_000_000, 3, 2)
    assert isinstance(found.delay, int)
    unreadable = [b"x", b"-2", b"1e300", None, None, None, b"", 0, 0]
    assert play(rsmq.attributes(SPEC, "q"), unreadable)[1] == QueueAttributes(
        None, None, None, 0, 0, None, None, 0, 0
    )
    assert QueueAttributes.of([b"-1", b"9007199254740992", *unreadable[2:]]).delay == 2**53


def test_a_receive_goes_on_until_its_budget_is_used_and_waits_where_nothing_is() -> None:
    spec = RSMQSpec("ns", max_receives=4, outside=SYSTEM)
    steps = rsmq.receive_messages(spec, "q", 5000, 7, None)
    asked, found = play(steps, [b"again"], [b"ok", b"i1", b"body", 1, 2, b"i2", b"", 3, 4])
    shared = (
        6,
        *(getattr(KEYS, each) for each in ("zset", "hash", "wake", "waiters", "dead", "errors")),
    )
    assert asked[0].args == asked[1].args == (*shared, "hide", 1000, 7, 0, 4)
    assert [(each.id, each.body, each.rc, each.fr) for each in found] == [
        ("i1", b"body", 1, 2),
        ("i2", b"", 3, 4),
    ]
    assert play(rsmq.receive_messages(SPEC, "q", 1, None, None, "remove"), [b"empty", -1])[1] == []
    # A deadline, the receive, its clock, and a wait of a tenth of a second at most.
    asked, found = play(
        rsmq.receive_messages(SPEC, "q", 1, None, 0.1),
        [b"empty", -1],
        10.0,
        None,
        [b"empty", 50],
        10.05,
        None,
        [b"empty", -1],
        10.1,
    )
    assert found == []
    assert asked[0].args[-2] == 900  # ms for which it may wait
    assert asked[2].args == (b"BLPOP", KEYS.wake, 0.1)
    assert asked[5].args == (b"BLPOP", KEYS.wake, 0.05)
    for wrong in (0, True, 1.0):
        with pytest.raises(ConfigurationError, match="from 1"):
            next(rsmq.receive_messages(SPEC, "q", wrong, None, None))  # type: ignore[arg-type]


def test_messages_are_stored_in_parts_and_a_failure_says_how_many_are() -> None:
    bodies = ["x"] * 1500
    asked, ids = play(
        rsmq.send_messages(SPEC, "q", bodies, 3), [b"ok", *[b"a"] * 1000], [b"ok", *[b"b"] * 500]
    )
    assert ids == ["a"] * 1000 + ["b"] * 500
    assert [len(each.args) for each in asked] == [8 + 1000, 8 + 500]
    assert asked[0].args[6:8] == (3, "")
    assert asked[0].args[5] != asked[1].args[5]  # each call's ids have a random part of their own
    assert not asked[0].resend
    stored = [b"ok", *[b"a"] * 1000]
    with pytest.raises(UnknownOutcome) as lost:
        play(rsmq.send_messages(SPEC, "q", bodies, 3), stored, UnknownOutcome("lost"))
    assert lost.value.stored == 1000
    with pytest.raises(MessageTooLong, match="message 1002 of this call, of 1 bytes") as long:
        play(rsmq.send_messages(SPEC, "q", bodies, 3), stored, [b"long", 2, 1024])
    with pytest.raises(ResponseError) as refused:
        play(rsmq.send_messages(SPEC, "q", bodies, 3), stored, ResponseError("no"))
    for error in (long.value, refused.value):
        assert error.__notes__ == ["ackq: the first 1000 of 1500 messages are stored"]
    # Long bodies whose characters must be counted weigh more.
    long_ones = ["ü" * 40_000] * 4
    asked, _ = play(
        rsmq.send_messages(SPEC, "q", long_ones, None),
        [b"ok", b"a"],
        [b"ok", b"a"],
        [b"ok", b"a"],
        [b"ok", b"a"],
    )
    assert asked[0].args[6] == b""
    assert len(play(rsmq.send_messages(SPEC, "q", ["u" * 80_000] * 4, None), [b"ok"])[0]) == 1


def test_a_notice_is_sent_only_by_clients_that_ask_for_it() -> None:
    (asked,), _ = play(
        rsmq.send_message(RSMQSpec("ns", True, outside=SYSTEM), "q", "x", None), [b"ok", b"id"]
    )
    assert asked.args[7] == "ns:rt:q"


def test_messages_are_deleted_as_far_as_each_call_came() -> None:
    ids = [f"{number:032}" for number in range(1200)]
    asked, deleted = play(rsmq.delete_messages(SPEC, "q", ids), [700, 800], [300, 400])
    assert deleted == 1000
    assert [each.args[4:] for each in asked] == [tuple(ids[:1000]), tuple(ids[800:])]
    assert all(each.resend for each in asked)
    (asked,), changed = play(_visibility(), b"ok")
    assert (changed, asked.args[6:]) == (True, (ID, 5, b""))
    assert play(_visibility(), b"gone")[1] is False


def _letter(entry: bytes, body: bytes = b"x") -> list[Any]:
    return [entry, [b"id", b"i", b"body", body, b"rc", b"3", b"fr", b"", b"time", b"9"]]


def test_dead_letters_are_read_from_one_entry_to_the_next() -> None:
    first, rest = [_letter(b"1-0")], [_letter(b"2-0"), _letter(b"3-0")]
    asked, found = play(rsmq.dead_letters(SPEC, "q", 500, None), first, rest, [_letter(b"4-0")])
    assert [each.args for each in asked] == [
        (b"XRANGE", KEYS.dead, "-", b"+", b"COUNT", 1),
        (b"XRANGE", KEYS.dead, "(1-0", b"+", b"COUNT", 2),
        (b"XRANGE", KEYS.dead, "(3-0", b"+", b"COUNT", 4),
    ]
    assert all(each.resend for each in asked)
    assert len(found) == 4
    assert found[0] == RSMQDeadLetter("i", b"x", 3, None, 9, "1-0")
    (asked,), found = play(rsmq.dead_letters(SPEC, "q", 1, "5-1"), first)
    assert asked.args[2] == "(5-1"
    for wrong in (-1, True, 1.0):
        with pytest.raises(ConfigurationError, match="from 0"):
            next(rsmq.dead_letters(SPEC, "q", wrong, None))  # type: ignore[arg-type]
    for operation in (
        rsmq.dead_letters(SPEC, "q", 1, "x"),
        rsmq.redrive(SPEC, "q", None, ["x"]),
        rsmq.drop_dead_letters(SPEC, "q", ["x"]),
    ):
        with pytest.raises(ConfigurationError):
            next(operation)


def test_dead_letters_are_redriven_and_dropped_in_parts() -> None:
    entries = [f"{at}-0" for at in range(1, 61)]
    asked, dropped = play(rsmq.drop_dead_letters(SPEC, "q", entries), 50, 9)
    assert dropped == 59
    assert [each.args for each in asked] == [
        (b"XDEL", KEYS.dead, *entries[:50]),
        (b"XDEL", KEYS.dead, *entries[50:]),
    ]
    asked, redriven = play(rsmq.redrive(SPEC, "q", None, entries[:20]), [10, 12], [8, 8])
    assert redriven == 18
    assert [each.args[6:] for each in asked] == [(16, *entries[:16]), (8, *entries[12:20])]
    asked, redriven = play(rsmq.redrive(SPEC, "q", None, ()), 20, [16, 16], [3, 3], [0, 0])
    assert redriven == 19
    assert asked[0].args == (b"XLEN", KEYS.dead)
    assert asked[0].resend
    assert [each.args[6:] for each in asked[1:]] == [(16,), (4,), (1,)]
    for wrong in (-1, True, 1.0):
        with pytest.raises(ConfigurationError, match="from 0"):
            next(rsmq.redrive(SPEC, "q", wrong, ()))  # type: ignore[arg-type]


def test_a_namespace_is_printable_text() -> None:
    for fine in ("a", "ü" * 100, "a b"):
        check_namespace(fine)
    wrong: tuple[Any, ...] = ("", "a" * 201, "ü" * 101, "a\n", "\x7f", "\ud800", None, b"a")
    for each in wrong:
        with pytest.raises(ConfigurationError, match="1 to 200 bytes"):
            check_namespace(each)


def test_a_maxsize_at_its_limits() -> None:
    for fine in (1024, 65_565, -1):
        assert check_maxsize(fine) == fine
    wrong: tuple[Any, ...] = (1023, 65_566, 0, -2, True, 2000.0)
    for each in wrong:
        with pytest.raises(InvalidValue, match="maxsize"):
            check_maxsize(each)
