"""The scripts of the list of workers, raw, on every server."""

from collections.abc import Callable
from typing import Any

import pytest

from ackq import scripts
from ackq.queue.keys import QueueKeys
from tests.servers import Target
from tests.waiting import wait_until

#: ``call("leave", b"w")``
Call = Callable[..., Any]
MINUTE = 60_000_000
SCRIPTS = ["heartbeat", "leave", "order", "list"]


@pytest.fixture
def call(target: Target, name: str) -> Call:
    seen, doing, orders = QueueKeys.of(name).workers

    def run(script: str, *args: Any) -> Any:
        keys = (seen, orders) if script == "order" else (seen, doing, orders)
        text = scripts.load(f"worker/{script}").text.decode()
        return target.control.eval(text, len(keys), *keys, *args)

    return run


def listed(call: Call) -> dict[bytes, tuple[bytes, bytes]]:
    """Return the record and the order of each worker."""
    cursor, _, *rest = call("list", 0)
    assert cursor == b"0"
    return {rest[at]: (rest[at + 2], rest[at + 3]) for at in range(0, len(rest), 4)}


def state(target: Target, name: str) -> list[Any]:
    """Return all that the list holds."""
    seen, doing, orders = QueueKeys.of(name).workers
    control: Any = target.control
    return [control.zrange(seen, 0, -1), control.hgetall(doing), control.hgetall(orders)]


def test_a_heartbeat_lists_a_worker_until_its_entry_ends(
    call: Call, target: Target, name: str
) -> None:
    assert call("heartbeat", "w", "one", MINUTE) == b""
    assert call("heartbeat", "w", "two", 100_000) == b""
    assert state(target, name)[:2] == [[b"w"], {b"w": b"two"}]
    wait_until(lambda: listed(call) == {}, "the entry to end")
    keys = QueueKeys.of(name).workers
    wait_until(lambda: not target.control.exists(*keys), "the keys to expire")


def test_a_worker_whose_entry_ended_is_not_listed_and_then_deleted(
    call: Call, target: Target, name: str
) -> None:
    call("heartbeat", "alive", "{}", MINUTE)
    call("heartbeat", "dead", "{}", 1000)  # the last one, since each deletes ended entries
    wait_until(lambda: listed(call) == {b"alive": (b"{}", b"")}, "the entry to end")
    call("heartbeat", "alive", "{}", MINUTE)
    assert state(target, name)[:2] == [[b"alive"], {b"alive": b"{}"}]


def test_one_heartbeat_deletes_a_hundred_entries(call: Call, target: Target, name: str) -> None:
    seen, doing, _ = QueueKeys.of(name).workers
    dead = {f"w{number}": number for number in range(250)}
    target.control.zadd(seen.decode(), dead)
    target.control.hset(doing.decode(), mapping=dict.fromkeys(dead, "{}"))
    for left in (150, 50, 0):
        call("heartbeat", "alive", "{}", MINUTE)
        assert target.control.zcard(seen.decode()) == left + 1
        assert target.control.hlen(doing.decode()) == left + 1


def test_the_keys_last_as_long_as_the_last_entry(call: Call, target: Target, name: str) -> None:
    call("heartbeat", "long", "{}", MINUTE)
    call("heartbeat", "short", "{}", 1000)
    for key in QueueKeys.of(name).workers[:2]:
        assert 50_000 < target.control.pttl(key.decode()) <= 60_001


def test_an_order_waits_until_it_is_confirmed(call: Call) -> None:
    call("heartbeat", "w", "{}", MINUTE)
    assert call("order", "quiet", "w") == [1]
    order = call("heartbeat", "w", "{}", MINUTE)
    assert order.endswith(b":quiet")
    assert listed(call)[b"w"][1] == order
    assert call("heartbeat", "w", "{}", MINUTE) == order, "the reply before may be lost"
    assert call("heartbeat", "w", "{}", MINUTE, order) == b""
    assert listed(call)[b"w"][1] == b""
    assert call("heartbeat", "w", "{}", MINUTE, order) == b""


def test_a_confirmation_does_not_delete_a_newer_order(call: Call) -> None:
    call("heartbeat", "w", "{}", MINUTE)
    call("order", "quiet", "w")
    first = call("heartbeat", "w", "{}", MINUTE)
    call("order", "resume", "w")
    call("order", "quiet", "w")
    second = call("heartbeat", "w", "{}", MINUTE, first)
    assert second.endswith(b":quiet")
    assert second != first


def test_a_worker_that_is_not_listed_gets_no_order(call: Call, target: Target, name: str) -> None:
    call("heartbeat", "w", "{}", MINUTE)
    call("heartbeat", "ended", "{}", 1000)
    wait_until(lambda: b"ended" not in listed(call), "the entry to end")
    assert call("order", "stop", "absent", "w", "ended") == [0, 1, 0]
    assert state(target, name)[2].keys() == {b"w"}
    assert target.control.pttl(QueueKeys.of(name).workers[2].decode()) > 86_000_000


def test_an_order_outlives_the_entry_of_a_frozen_worker(call: Call) -> None:
    call("heartbeat", "w", "{}", 200_000)
    call("heartbeat", "other", "{}", MINUTE)
    assert call("order", "stop", "w") == [1]
    wait_until(lambda: b"w" not in listed(call), "the entry to end")
    call("heartbeat", "other", "{}", MINUTE)
    assert call("heartbeat", "w", "{}", MINUTE).endswith(b":stop")


def test_a_worker_that_leaves_takes_its_order_along(call: Call, target: Target, name: str) -> None:
    for worker in ("w", "other"):
        call("heartbeat", worker, "{}", MINUTE)
    call("order", "stop", "w", "other")
    assert call("leave", "w") == 1
    assert [[*each] for each in state(target, name)] == [[b"other"]] * 3
    assert call("leave", "w") == 0
    call("leave", "other")
    assert not target.control.exists(*QueueKeys.of(name).workers)


def test_every_worker_is_listed_a_hundred_or_so_at_a_time(
    call: Call, target: Target, name: str
) -> None:
    workers = {f"host:{number}:0123456789abcdef" * 3 for number in range(500)}
    for worker in workers:
        call("heartbeat", worker, worker, MINUTE)
    found, cursor, calls = set(), b"0", 0
    while cursor != b"0" or not calls:
        cursor, _, *rest = call("list", cursor)
        assert len(rest) <= 4 * 200
        found |= {(rest[at].decode(), rest[at + 2].decode()) for at in range(0, len(rest), 4)}
        calls += 1
    assert found == {(each, each) for each in workers}


def test_a_record_that_is_too_long_is_not_read(call: Call, target: Target, name: str) -> None:
    call("heartbeat", "w", "x" * 8192, MINUTE)
    assert len(listed(call)[b"w"][0]) == 8192
    target.control.hset(QueueKeys.of(name).workers[1].decode(), "w", "x" * 8193)
    assert listed(call) == {b"w": (b"", b"")}
