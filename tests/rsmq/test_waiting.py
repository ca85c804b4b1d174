"""A blocking receive: woken at once by ackq, within a second by others, and by time."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import redis

from ackq.rsmq import RSMQ
from tests.rsmq.conftest import MakePeer, MakeRSMQ
from tests.servers import Target
from tests.waiting import wait_until

Submit = Callable[..., "Future[Any]"]


@pytest.fixture
def submit() -> Iterator[Submit]:
    """``submit(function, *args)`` in a thread of its own."""
    with ThreadPoolExecutor(16) as pool:
        yield pool.submit


#: Ways to make a message visible at once: prepare, then do it; each returns or knows the id.
WAYS: dict[str, Callable[[Any], Callable[[], str]]] = {
    "send": lambda sender: lambda: sender.send_message("q", "m"),
    "send a batch": lambda sender: lambda: sender.send_messages("q", ["m"])[0],
    "change visibility": lambda sender: shown(sender),
    "redrive": lambda sender: redriven(sender),
}


def shown(sender: Any) -> Callable[[], str]:
    id: str = sender.send_message("q", "hidden", delay=1000)
    return lambda: id if sender.change_message_visibility("q", id, 0) else ""


def redriven(sender: Any) -> Callable[[], str]:
    id: str = sender.send_message("q", "dead")
    sender.receive_message("q", vt=0)
    wait_until(lambda: sender.receive_message("q") is None and sender.dead_letters("q"), "death")
    return lambda: id if sender.redrive("q") == 1 else ""


@pytest.mark.parametrize("way", WAYS)
def test_a_waiter_is_woken_at_once(
    make_rsmq: MakeRSMQ, target: Target, submit: Submit, way: str
) -> None:
    sender, waiter = make_rsmq(max_receives=1), make_rsmq()
    sender.create_queue("q")
    took = []
    # A wait ends by itself now and then; three tries cannot all fall on that.
    for _ in range(3):
        make = WAYS[way](sender)
        waiting = submit(waiter.pop_message, "q", 20)
        wait_until(lambda: blocked(target), "the waiter to wait")
        before = time.monotonic()
        id = make()
        got = waiting.result(10)
        took.append(time.monotonic() - before)
        assert got.id == id
    assert min(took) < 0.4, f"woken only after {took} s"


@pytest.mark.parametrize("kind", ["PyRSMQ", "rsmq"])
def test_what_others_send_is_found_within_a_second(
    make_peer: MakePeer,
    url: str,
    token: str,
    plain_client: redis.Redis,
    submit: Submit,
    kind: str,
) -> None:
    theirs = make_peer(kind)
    theirs.create("q")
    with RSMQ.from_url(url, token) as waiter:
        took = []
        for _ in range(5):
            waiting = submit(waiter.receive_message, "q", None, 20)
            wait_until(lambda: blocked_clients(plain_client), "the waiter to wait")
            id = theirs.send("q", "m")
            before = time.monotonic()
            assert waiting.result(10).id == id
            took.append(time.monotonic() - before)
        # Not the longest: a busy machine adds to it what it likes.
        assert sorted(took)[2] < 1, f"found only after {took} s"


def test_a_wait_ends_in_time_with_nothing(make_rsmq: MakeRSMQ) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    before = time.monotonic()
    assert rsmq.receive_messages("q", 5, timeout=0.3) == []
    assert 0.3 <= time.monotonic() - before < 5
    assert rsmq.receive_message("q", timeout=0) is None


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", True])
def test_a_wait_is_a_number_of_seconds(make_rsmq: MakeRSMQ, timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout"):
        make_rsmq().receive_message("q", timeout=timeout)


def test_a_waiter_finds_what_becomes_visible_by_time(make_rsmq: MakeRSMQ) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q", vt=1)
    rsmq.send_message("q", "m")
    first = rsmq.receive_message("q")
    again = rsmq.receive_message("q", vt=60, timeout=10)
    assert (again.id, again.rc) == (first.id, 2)
    rsmq.send_message("q", "later", delay=1)
    assert rsmq.receive_message("q", timeout=10).message == "later"


def test_a_wait_for_a_time_sleeps_in_the_server(make_rsmq: MakeRSMQ, target: Target) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    rsmq.receive_message("q")
    rsmq.send_message("q", "m", delay=1)
    before = target.calls("evalsha", "blpop")
    assert rsmq.receive_message("q", timeout=30).message == "m"
    # Two looks and two waits, and some more where Redis or this machine is slow to wake it.
    assert target.calls("evalsha", "blpop") - before < 15


def test_a_waiter_is_expected_for_as_long_as_it_waits(
    make_rsmq: MakeRSMQ, target: Target, name: str, submit: Submit
) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    waiting = submit(rsmq.receive_message, "q", None, 1.0)
    # A second longer than it waits, which it needs to come back.
    wait_until(lambda: target.control.pttl(f"{name}:q:Q.waiters") > 1000, "senders to expect it")
    assert waiting.result(30) is None


def test_one_message_is_received_by_one_of_many_waiters(
    make_rsmq: MakeRSMQ, submit: Submit
) -> None:
    sender, waiters = make_rsmq(), [make_rsmq() for _ in range(5)]
    sender.create_queue("q")
    waiting = [submit(waiter.receive_message, "q", 60, 1.2) for waiter in waiters]
    sender.send_message("q", "m")
    got = [future.result(10) for future in waiting]
    assert [each.message for each in got if each] == ["m"]


def test_a_batch_wakes_as_many_waiters(make_rsmq: MakeRSMQ, target: Target, submit: Submit) -> None:
    sender, waiters = make_rsmq(), [make_rsmq() for _ in range(4)]
    sender.create_queue("q")
    took = []
    for _ in range(3):
        waiting = [submit(waiter.pop_message, "q", 20) for waiter in waiters]
        wait_until(lambda: blocked(target) == 4, "all to wait")
        before = time.monotonic()
        sender.send_messages("q", ["1", "2", "3", "4"])
        got = sorted(future.result(10).message for future in waiting)
        took.append(time.monotonic() - before)
        assert got == ["1", "2", "3", "4"]
    assert min(took) < 0.4, f"woken only after {took} s"


def test_tokens_are_kept_only_while_consumers_wait(
    make_rsmq: MakeRSMQ, target: Target, name: str
) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["m"] * 200)
    assert own_keys(target, name) == set()
    rsmq.delete_messages("q", [message.id for message in rsmq.receive_messages("q", 200)])
    rsmq.receive_message("q", timeout=0.05)
    # A consumer has just waited, so tokens are left for it: few, and not for long.
    for _ in range(2):
        rsmq.send_messages("q", ["m"] * 200)
    assert target.control.llen(f"{name}:q:Q.wake") == 64
    assert all(0 < target.control.pttl(key) <= 2000 for key in own_keys(target, name))
    wait_until(lambda: own_keys(target, name) == set(), "them to expire", 5)


def test_stale_tokens_are_removed_by_a_consumer_that_finds_nothing(
    make_rsmq: MakeRSMQ, target: Target, name: str
) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    target.control.lpush(f"{name}:q:Q.wake", *["1"] * 50)
    looks = target.calls("blpop")
    assert rsmq.receive_message("q", timeout=0.3) is None
    assert target.calls("blpop") - looks < 10
    assert target.control.llen(f"{name}:q:Q.wake") == 0


def test_a_closed_connection_does_not_end_a_wait(
    url: str, token: str, plain_client: redis.Redis, submit: Submit
) -> None:
    with RSMQ.from_url(url, token) as waiter, RSMQ.from_url(url, token) as sender:
        sender.create_queue("q")
        waiting = submit(waiter.receive_message, "q", None, 20)
        clients = wait_until(lambda: blocked_clients(plain_client), "the waiter to wait")
        for client in clients:
            plain_client.client_kill_filter(_id=client["id"])
        id = sender.send_message("q", "m")
        assert waiting.result(10).id == id


def blocked_clients(client: redis.Redis) -> list[Any]:
    return [each for each in client.client_list() if each["cmd"] == "blpop"]


def blocked(target: Target) -> int:
    nodes = {"target_nodes": "primaries"} if target.cluster else {}
    info: Any = target.control.info("clients", **nodes)
    parts = info.values() if target.cluster else [info]
    return sum(int(part["blocked_clients"]) for part in parts)


def own_keys(target: Target, name: str) -> set[bytes]:
    return {key for key in target.control.scan_iter(f"{name}:*") if b":Q." in key}
