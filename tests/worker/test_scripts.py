"""The worker's own scripts, raw, on every server."""

from collections.abc import Callable
from typing import Any

import pytest

from ackq import scripts
from ackq.queue.keys import QueueKeys
from tests.servers import Target
from tests.waiting import wait_until

Call = Callable[..., Any]


@pytest.fixture
def permit(target: Target, name: str) -> Call:
    text = scripts.load("worker/permit").text
    return lambda *args: target.control.eval(text.decode(), 1, QueueKeys.of(name).rate, *args)


@pytest.fixture
def tick(target: Target, name: str) -> Call:
    text = scripts.load("worker/tick").text
    keys = QueueKeys.of(name)
    count, *passed = keys.passed("worker/tick")
    return lambda *args: target.control.eval(text.decode(), int(count), *passed, *args)


@pytest.fixture
def put(target: Target, name: str) -> Call:
    text = scripts.load("schedules/put").text
    keys = QueueKeys.of(name)
    return lambda *args: target.control.eval(text.decode(), 2, keys.schedules, keys.ticks, *args)


@pytest.fixture
def listed(target: Target, name: str) -> Call:
    text = scripts.load("schedules/list").text
    keys = QueueKeys.of(name)
    return lambda: target.control.eval(text.decode(), 2, keys.schedules, keys.ticks)


def test_a_burst_is_permitted_and_then_the_rate(permit: Call) -> None:
    assert permit(10, 0, 1, 60_000_000, 4) == [4, 0]
    permitted, wait = permit(10, 0, 1, 60_000_000, 4)
    assert permitted == 0
    assert 55_000_000 < wait <= 60_000_000


def test_what_was_not_taken_is_given_back(permit: Call) -> None:
    assert permit(4, 0, 1, 60_000_000, 4) == [4, 0]
    assert permit(0, 3, 1, 60_000_000, 4) == [0, 0]
    assert permit(10, 0, 1, 60_000_000, 4) == [3, 0]
    assert permit(9, 1000, 1, 60_000_000, 4) == [4, 0]  # never more than the burst


def test_the_allowance_grows_with_time_and_expires(permit: Call, target: Target, name: str) -> None:
    assert permit(5, 0, 10, 100_000, 2) == [2, 0]
    wait_until(lambda: permit(1, 0, 10, 100_000, 2)[0], "the next one")
    wait_until(lambda: not target.control.exists(QueueKeys.of(name).rate), "the key to expire")


def test_a_clock_that_was_set_back_delays_no_caller(
    permit: Call, target: Target, name: str
) -> None:
    target.control.set(QueueKeys.of(name).rate, 4_000_000_000_000_000)
    permitted, wait = permit(1, 0, 1, 1_000_000, 1)
    assert (permitted, wait <= 1_000_000) == (0, True)


def test_a_tick_is_pushed_once(tick: Call, target: Target, name: str) -> None:
    status, latest, now, missed = tick("s", 0, 0, 0, b"")
    assert (status, latest, missed) == (b"known", 0, 0)
    due = now - 1
    assert tick("s", due, 0, 0, b"body")[:2] == [b"pushed", due]
    assert tick("s", due, 0, 0, b"body")[:2] == [b"known", due]
    assert tick("s", due, due, 0, b"body")[:2] == [b"known", due]
    assert target.control.lrange(name, 0, -1) == [b"body"]


def test_a_tick_goes_to_the_right_end_for_the_left(tick: Call, target: Target, name: str) -> None:
    target.control.rpush(name, "listed")
    now = tick("s", 0, 0, 0, b"")[2]
    tick("s", now - 1, 0, 0, b"body", "left")
    assert target.control.lrange(name, 0, -1) == [b"listed", b"body"]


def test_only_a_worker_that_knows_the_latest_tick_pushes_and_counts(
    tick: Call, target: Target, name: str
) -> None:
    now = tick("s", 0, 0, 0, b"")[2]
    tick("s", now - 100, 0, 0, b"1")
    assert tick("s", now - 10, now - 200, 7, b"2")[0] == b"known"
    assert tick("s", now - 10, now - 100, 7, b"2")[3] == 7
    assert tick("s", now - 5, now - 10, 2, b"3")[3] == 9
    assert target.control.llen(name) == 3
    assert target.control.hgetall(QueueKeys.of(name).ticks) == {
        b"s": b"%d" % (now - 5),
        b"s:missed": b"9",
    }


def test_a_tick_that_lies_ahead_is_not_pushed(tick: Call, target: Target, name: str) -> None:
    now = tick("s", 0, 0, 0, b"")[2]
    assert tick("s", now + 3_600_000_000, 0, 0, b"body")[0] == b"early"
    assert not target.control.exists(name)


VERSIONS = "a" * 16, "b" * 16


def test_a_schedule_is_stored_listed_replaced_and_removed(
    put: Call, listed: Call, target: Target, name: str
) -> None:
    ticks = QueueKeys.of(name).ticks
    status, now = put("s", VERSIONS[0], "{}")
    assert status == b"stored"
    target.control.hset(ticks, "s:missed", 3)
    assert listed()[1:] == [b"s", b"a" * 16 + b"{}", now, 3]
    status, later = put("s", VERSIONS[1], "{1}", VERSIONS[0])
    assert (status, later > now) == (b"replaced", True)
    assert listed()[1:] == [b"s", b"b" * 16 + b"{1}", later, 3]
    assert put("s", VERSIONS[0], "{2}", VERSIONS[1], 1)[0] == b"replaced"
    assert listed()[1:] == [b"s", b"a" * 16 + b"{2}", later, 3]  # its ticks are kept
    assert put("s", VERSIONS[0], "")[0] == b"removed"
    assert put("s", VERSIONS[0], "")[0] == b"none"
    assert listed()[1:] == []
    assert target.control.exists(QueueKeys.of(name).schedules, ticks) == 0


def test_a_schedule_replaces_only_the_version_that_its_caller_knows(
    put: Call, listed: Call
) -> None:
    _, now = put("s", VERSIONS[0], "{}")
    stored = VERSIONS[0].encode() + b"{}"
    for former in ("", VERSIONS[1], "a"):
        assert put("s", VERSIONS[1], "{1}", former)[::2] == [b"changed", stored]
    assert put("other", VERSIONS[1], "{}", VERSIONS[0])[::2] == [b"changed", b""]
    # The reply was lost, and the call is sent again.
    assert put("s", VERSIONS[0], "{}")[0] == b"stored"
    assert put("s", VERSIONS[0], "{}", VERSIONS[1])[0] == b"replaced"
    assert listed()[1:] == [b"s", stored, now, 0]


def test_a_worker_s_own_schedule_keeps_its_ticks(put: Call, tick: Call, target: Target) -> None:
    now = tick("own", 0, 0, 0, b"")[2]
    tick("own", now - 1, 0, 0, b"1")
    assert put("own", VERSIONS[0], "")[0] == b"none"
    assert tick("own", 0, 0, 0, b"")[1] == now - 1


def test_there_are_at_most_256_schedules(put: Call, listed: Call) -> None:
    for n in range(256):
        put(f"s{n}", VERSIONS[0], "{}")
    assert put("one more", VERSIONS[0], "{}")[0] == b"full"
    assert put("s7", VERSIONS[1], "{}", VERSIONS[0])[0] == b"replaced"
    assert len(listed()) == 1 + 4 * 256


def test_an_earlier_version_pushes_nothing(
    put: Call, tick: Call, target: Target, name: str
) -> None:
    _, now = put("s", VERSIONS[0], "{}")
    assert tick("s", now, 0, 0, b"1", "right", VERSIONS[1])[0] == b"changed"
    assert tick("other", now, 0, 0, b"1", "right", VERSIONS[0])[0] == b"changed"
    assert not target.control.exists(name)
    due = now + 1
    wait_until(lambda: tick("s", 0, 0, 0, b"")[2] > due, "the next microsecond")
    assert tick("s", due, now, 0, b"1", "right", VERSIONS[0])[:2] == [b"pushed", due]
    put("s", VERSIONS[0], "")
    assert tick("s", due + 1, due, 0, b"2", "right", VERSIONS[0])[0] == b"changed"
    assert target.control.llen(name) == 1
