"""The worker's own scripts, raw, on every server."""

from __future__ import annotations

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
    return lambda *args: target.control.eval(text.decode(), 2, keys.ready, keys.ticks, *args)


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
