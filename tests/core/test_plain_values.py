"""Names, ids, counts and waits: functions of plain values, at their limits, with no server."""

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from redis.exceptions import NoPermissionError, OutOfMemoryError, ResponseError

from ackq import scripts
from ackq.config import Confirm
from ackq.core.backoff import backoff
from ackq.core.call import Keys
from ackq.core.confirm import check_confirmed, require_confirmable
from ackq.core.counters import Counters, derived, total
from ackq.core.effects import Operation, Request, Sleep, pack, wait_command
from ackq.core.encode import encode_many
from ackq.core.ids import key_of_id, text_of_key, usable_id
from ackq.core.names import check_name, has_hash_tag
from ackq.core.page_size import TARGET, next_size
from ackq.core.server import check_server, parse_info
from ackq.core.waits import INTERRUPTED, Deadline, block, check_timeout, seconds_of
from ackq.errors import (
    ConfigurationError,
    CrossSlotError,
    InvalidMessage,
    NotConfirmed,
    QueueNameError,
    UnsupportedServer,
)
from ackq.scripts import Script
from tests import facts
from tests.outside import FIXED
from tests.steps import play


@pytest.mark.parametrize(
    "name",
    [
        "",
        7,
        None,
        "a" * 201,
        "ü" * 101,
        "a*",
        "a\x7f",
        "{a",
        "a}b{",
        "{}",
        "aBACKUP",
        "aRECORD",
        "xDEDUP:y",
        "xCLAIM:y",
        "\ud800",
    ],
)
def test_a_name_that_would_be_ambiguous_is_refused(name: Any) -> None:
    with pytest.raises(QueueNameError):
        check_name(name)


def test_no_queue_has_the_name_of_a_key_that_a_script_gets() -> None:
    loaded = [scripts.load(each.script) for each in facts.every()]
    keys = {name for script in loaded for name, _ in (*script.keys, *script.group_keys)}
    # The keys of list queues; those of topics and of sharded queues are in lower case.
    names = {f"jobs{name[6:]}" for name in keys if re.fullmatch(r"\{name\}[A-Z:]+", name)}
    assert len(names) > 20
    for name in names:
        with pytest.raises(QueueNameError):
            check_name(name)


def test_names_up_to_the_limit() -> None:
    for name in ("a", "a" * 200, "ü" * 100, "{a}b", "BACKUPa"):
        check_name(name)
    assert has_hash_tag("{a}b")
    assert has_hash_tag("b{a}")
    assert not has_hash_tag("ab")
    assert not has_hash_tag("}{a}")


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("a", "a"),
        ("", None),
        ("a" * 512, "a" * 512),
        ("a" * 513, None),
        ("\0a", None),
        ("ü" * 256, "ü" * 256),
        ("ü" * 257, None),
        ("a\0", "a\0"),
        ("\ud800", None),
        (0, "0"),
        (2**53 - 1, "9007199254740991"),
        (2**53, None),
        (-(2**53), None),
        (1.0, "1"),
        (1.5, None),
        (float(2**53), None),
        (math.inf, None),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_the_key_of_an_id(value: Any, key: str | None) -> None:
    assert key_of_id(value) == key


def test_a_message_is_called_by_the_id_in_its_body_or_its_key() -> None:
    assert text_of_key(b"a", b'{"id":"b"}') == "a"
    assert text_of_key(b"\xff", b"") == "\ufffd"
    assert text_of_key(b"\x00k", b'{"id":"b"}') == "b"
    assert text_of_key(b"", b'{"n":1,"id":7}') == "7"
    assert text_of_key(b"\x00\xff", b"[]") == "\ufffd"
    assert usable_id(b"{") is None


def test_a_bad_message_is_refused_before_all_others_are_read() -> None:
    read: list[int] = []

    def messages() -> Iterator[Any]:
        for number in range(100_000):
            read.append(number)
            yield {"id": number} if number else {"id": None}

    with pytest.raises(InvalidMessage):
        encode_many(messages(), 100, FIXED)
    assert len(read) <= 1000


def test_what_a_server_tells_of_itself() -> None:
    reply = b"# Server\r\nredis_version:7.2.4\r\nexecutable:C:\\redis\r\nname:\xff\r\n\r\n"
    assert parse_info(reply) == {
        "redis_version": "7.2.4",
        "executable": "C:\\redis",
        "name": "\ufffd",
    }


def test_counts_that_follow_from_those_of_the_scripts() -> None:
    counted = {
        b"since": 2_000_000,
        b"live": 5,
        b"held": 2,
        b"acked": 10,
        b"nacked": 20,
        b"released": 40,
        b"returned": 80,
        b"ended": 160,
        b"dropped": 320,
        b"redriven": 3,
        b"dead:rejected": 640,
        b"dead:\xff": 1,
        b"dropped:dead": 1280,
    }
    assert derived(3_000_000, 105, 7, counted) == {
        "at": 3.0,
        "since": 2.0,
        "pushed": 100 + 10 + 641 + 320 - 3,
        "taken": 5 + 10 + 20 + 40 + 640 + 80 + 160,
        "acked": 10,
        "returned": 80,
        "nacked": 20,
        "released": 40,
        "dead": {"rejected": 640, "\ufffd": 1},
        "redriven": 3,
        "dropped": 320,
        "dead_dropped": 1280,
    }
    assert not any(
        count
        for name, count in derived(1, 0, 0, {b"since": 1}).items()
        if name not in ("at", "since")
    )


def test_the_counts_of_parts_are_added() -> None:
    one = Counters(at=1.0, since=4.0, pushed=1, taken=2, acked=3, returned=4, dead={"a": 1})
    two = Counters(at=2.0, since=3.0, pushed=5, taken=6, acked=7, returned=8, dead={"a": 2, "b": 1})
    summed = total([one, two])
    assert (summed.at, summed.since) == (2.0, 4.0)
    assert (summed.pushed, summed.taken, summed.acked, summed.returned) == (6, 8, 10, 12)
    assert summed.dead == {"a": 3, "b": 1}
    assert total([one, Counters(1.0, 1.0, None, 0, 0, 0)]).pushed is None


def test_a_page_doubles_up_to_a_mebibyte_of_bodies() -> None:
    assert next_size([], 100) == 1
    assert next_size([None, b"", b"x"], 100) == 6
    assert next_size([b"x"] * 80, 100) == 100
    assert next_size([b"x" * (TARGET - 1)] * 2, 100) == 1
    assert next_size([b"x" * (TARGET // 3 - 1)] * 2, 100) == 3


def test_the_pause_before_a_retry_doubles_up_to_its_limit() -> None:
    delays = [backoff(count) for count in (1, 2, 3, 9, 10, 99, 10**6)]
    assert delays == [1, 2, 4, 256, 300, 300, 300]


def test_how_long_a_wait_may_be() -> None:
    assert check_timeout(None) == 0.0
    assert check_timeout(math.inf) == math.inf
    for wrong in (-1, math.nan, True, "1"):
        with pytest.raises(ConfigurationError, match="timeout"):
            check_timeout(wrong)  # type: ignore[arg-type]
    assert seconds_of(0.0) == 0.01
    assert seconds_of(0.01234) == 0.012


def test_a_deadline_begins_at_its_first_use() -> None:
    deadline = Deadline(2)
    assert _answered(deadline.left(), 10.0) == 2.0
    assert _answered(deadline.left(), 11.5) == 0.5
    assert _answered(deadline.left(), 13.0) == 0.0
    assert _answered(Deadline(None).left()) == 0.0


def test_a_wait_sleeps_where_the_server_has_no_memory_and_ends_with_its_failover() -> None:
    keys = Keys("queue 'q'", {})
    steps = block(keys, (b"BLMOVE",), 1.5)
    request = next(steps)
    assert isinstance(request, Request)
    assert (request.args, request.resend) == ((b"BLMOVE",), True)
    assert steps.throw(OutOfMemoryError()) == Sleep(1.5)
    assert _answered(steps, None, begun=True) is INTERRUPTED
    for error in ("UNBLOCKED the role changed", "ERR UNBLOCKED"):
        steps = block(keys, (b"BLMOVE",), 1.5)
        next(steps)
        with pytest.raises(StopIteration if error.startswith("UN") else ResponseError) as ended:
            steps.throw(ResponseError(error))
        assert getattr(ended.value, "value", INTERRUPTED) is INTERRUPTED


def test_what_a_confirmation_asks_for() -> None:
    assert wait_command(Confirm(2, timeout=1.5)) == (b"WAIT", 2, 1500)
    assert wait_command(Confirm(2, timeout=0.001)) == (b"WAIT", 2, 1)
    assert wait_command(Confirm(2, timeout=1.5, fsync=True)) == (b"WAITAOF", 1, 2, 1500)


def test_a_confirmation_of_disks_needs_a_server_that_has_it() -> None:
    fsync = Confirm(1, fsync=True)
    assert _answered(require_confirmable(Confirm(1))) is None
    steps = require_confirmable(fsync)
    request = next(steps)
    assert isinstance(request, Request)
    assert request.resend
    assert _answered(steps, [[b"waitaof"]], begun=True) is None
    for absent in ([], [None]):
        with pytest.raises(UnsupportedServer):
            _answered(require_confirmable(fsync), absent)
    steps = require_confirmable(fsync)
    next(steps)
    with pytest.raises(StopIteration):
        steps.throw(NoPermissionError())


def test_fewer_replicas_than_required_are_reported() -> None:
    check_confirmed(Confirm(2), 2)
    check_confirmed(Confirm(2, fsync=True), [1, 2])
    with pytest.raises(NotConfirmed, match="1 of 2 replicas") as raised:
        check_confirmed(Confirm(2), 1)
    assert (raised.value.confirmed, raised.value.required) == (1, 2)
    assert "written it to disk" not in str(raised.value)
    with pytest.raises(NotConfirmed, match="written it to disk"):
        check_confirmed(Confirm(2, fsync=True), [0, 2])
    with pytest.raises(NotConfirmed, match="NOREPLICAS") as raised:
        check_confirmed(Confirm(2), ResponseError("NOREPLICAS"))
    assert (raised.value.confirmed, raised.value.required) == (0, 2)


def _answered(steps: Operation[Any], *answers: Any, begun: bool = False) -> Any:
    """Run an operation that asks for as many effects as there are answers; return its result."""
    left: Iterator[Any] = iter(answers)
    try:
        if not begun:
            next(steps)
        for answer in left:
            steps.send(answer)
    except StopIteration as ended:
        assert next(left, None) is None
        return ended.value
    raise AssertionError("it asks for more")


def test_a_name_without_a_hash_tag_is_refused_on_a_cluster() -> None:
    info = b"redis_version:7.0.15\r\ncluster_enabled:%d\r\n"
    with pytest.raises(CrossSlotError, match=r"'\{q\}'"):
        play(check_server("q"), info % 1)
    for name, cluster in (("{q}", 1), ("q", 0)):
        assert play(check_server(name), info % cluster)[1] is None


def test_a_number_that_is_no_json_names_its_message() -> None:
    with pytest.raises(InvalidMessage, match="'b'"):
        encode_many([{"id": "a", "x": None}, {"id": "b", "x": float("nan")}], 100, FIXED)


@pytest.mark.parametrize("constant", [0, 1, 3])
@pytest.mark.parametrize("by_text", [False, True])
def test_packing_the_start_of_a_call_once_changes_no_byte(constant: int, by_text: bool) -> None:
    script = Script("s", b"return 1", b"5" * 40)
    for key, last in ((b"k", 1), (b"k", b"\r\n*2"), (b"\r\n", "e\u0301"), (b"k" * 99, 0.5)):
        args = (2, key, b"other", last, 30_000_000)
        request = Request(args, script, constant=constant, by_text=by_text)
        assert request.packed() == pack(request.command())
    assert Request((b"PING",)).packed() == b"*1\r\n$4\r\nPING\r\n"
