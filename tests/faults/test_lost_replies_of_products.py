"""Lost replies of delay queues and RSMQ: only what does no harm twice is sent again."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import ackq
from ackq import scripts
from ackq.delay import AsyncDelayQueue, DelayEntry, DelayQueue
from ackq.embedded import Server
from ackq.rsmq import RSMQ, AsyncRSMQ
from tests.faults.proxy import PATIENCE, SILENCE, Kind, Proxy

LOST: list[Kind] = ["lose_reply", "swallow_reply"]
#: Operations that are tried with a silent server, which costs `SILENCE` each. What happens to a
#: request does not depend on the operation, but on whether it may be sent again.
SILENT = 2
#: One past the proxy, and one through it.
Pair = tuple[Any, Any]


@pytest.fixture
def pair(
    request: pytest.FixtureRequest,
    server: Server,
    proxy: Proxy,
    token: str,
    flavoured: Callable[..., Any],
) -> Iterator[Callable[[Any, Any], Pair]]:
    """``pair(blocking, asynchronous)``, with a short read timeout only where no reply comes."""
    silent = request.node.callspec.params.get("kind") == "swallow_reply"
    url = f"{proxy.url}?socket_timeout={SILENCE if silent else PATIENCE}"
    with contextlib.ExitStack() as stack:

        def make(blocking: Any, asynchronous: Any) -> Pair:
            client = stack.enter_context(redis.Redis.from_url(server.url))
            for name in scripts.names():  # NOSCRIPT would be lost, too
                client.script_load(scripts.load(name).text)
            direct = stack.enter_context(blocking(client, token))
            return direct, flavoured(blocking.from_url, asynchronous.from_url, url, token)

        yield make


@pytest.fixture
def delays(pair: Callable[..., Pair]) -> Pair:
    direct, delay = pair(DelayQueue, AsyncDelayQueue)
    delay.stats()
    return direct, delay


@pytest.fixture
def namespace(pair: Callable[..., Pair]) -> Pair:
    direct, rsmq = pair(RSMQ, AsyncRSMQ)
    direct.create_queue("q")
    rsmq.get_queue_attributes("q")
    return direct, rsmq


def test_what_would_do_harm_twice_is_not_sent_again_by_a_delay_queue(
    proxy: Proxy, delays: Pair
) -> None:
    direct, delay = delays
    operations: list[tuple[Callable[[], Any], int, int]] = [
        (lambda: delay.push("a", b""), 1, 0),
        (lambda: delay.cancel("a"), 0, 0),
        (lambda: delay.push_many([DelayEntry("b", b"")]), 1, 0),
        (lambda: delay.take(), 0, 1),
        (lambda: delay.purge(), 0, 0),
    ]
    for operate, ready, in_flight in operations:
        before = proxy.count(b"EVALSHA")
        proxy.fail(b"EVALSHA", "lose_reply")
        with pytest.raises(ackq.UnknownOutcome):
            operate()
        assert proxy.count(b"EVALSHA") - before == 1
        stats = direct.stats()
        assert (stats.ready, stats.in_flight) == (ready, in_flight)


def test_what_does_no_harm_twice_is_sent_again_by_a_delay_queue(proxy: Proxy, delays: Pair) -> None:
    direct, delay = delays
    direct.push_many(DelayEntry(key, b"") for key in ("a", "b", "c", "d"))
    held = {message.key: message for message in delay.take(4)}
    operations: list[Callable[[], Any]] = [
        lambda: delay.extend(held["a"]),
        lambda: delay.delete(held["a"]),
        lambda: delay.nack(held["b"], delay=100),
        lambda: delay.reschedule("b", delay=200),
        lambda: delay.reject(held["c"]),
        lambda: delay.release(held["d"]),
        lambda: delay.stats(),
    ]
    for operate in operations:
        before = proxy.count(b"EVALSHA")
        proxy.fail(b"EVALSHA", "lose_reply")
        operate()
        assert proxy.count(b"EVALSHA") - before == 2
    assert not any(message.lease_lost for message in held.values())
    stats = direct.stats()
    assert (stats.ready, stats.in_flight, stats.delayed, stats.dead) == (1, 0, 1, 1)


def test_push_many_says_how_many_are_surely_stored(proxy: Proxy, delays: Pair) -> None:
    direct, delay = delays
    proxy.fail(b"EVALSHA", "lose_reply", skip=1)
    with pytest.raises(ackq.UnknownOutcome) as caught:
        delay.push_many(DelayEntry(str(number), b"") for number in range(2500))
    assert caught.value.stored == 500
    assert direct.stats().ready == 1000


@pytest.mark.parametrize("kind", LOST)
def test_what_would_do_harm_twice_is_not_sent_again_by_rsmq(
    proxy: Proxy, namespace: Pair, kind: Kind
) -> None:
    direct, rsmq = namespace
    operations: list[tuple[Callable[[], Any], int]] = [
        (lambda: rsmq.send_message("q", "m"), 1),
        (lambda: rsmq.send_messages("q", ["m", "m"]), 3),
        (lambda: rsmq.receive_message("q"), 3),
        (lambda: rsmq.pop_message("q"), 2),
        (lambda: rsmq.redrive("q", 1), 2),
        (lambda: rsmq.create_queue("p"), 2),
        (lambda: rsmq.delete_queue("p"), 2),
    ]
    for operate, left in operations[: SILENT if kind == "swallow_reply" else None]:
        before = proxy.count(b"EVALSHA")
        proxy.fail(b"EVALSHA", kind)
        with pytest.raises(ackq.UnknownOutcome):
            operate()
        assert proxy.count(b"EVALSHA") - before == 1
        assert direct.get_queue_attributes("q").msgs == left
    assert direct.list_queues() == ["q"]


@pytest.mark.parametrize("kind", LOST)
def test_what_does_no_harm_twice_is_sent_again_by_rsmq(
    proxy: Proxy, namespace: Pair, kind: Kind
) -> None:
    direct, rsmq = namespace
    id = direct.send_message("q", "m", delay=1000)
    proxy.fail(b"EVALSHA", kind)
    assert rsmq.change_message_visibility("q", id, 2000) is True
    proxy.fail(b"EVALSHA", "lose_reply")
    assert rsmq.set_queue_attributes("q", vt=7).vt == 7
    proxy.fail(b"EVALSHA", "lose_reply")
    assert rsmq.get_queue_attributes("q").msgs == 1
    proxy.fail(b"SMEMBERS", kind)
    assert rsmq.list_queues() == ["q"]
    proxy.fail(b"EVALSHA", "lose_reply")
    assert rsmq.delete_message("q", id) is False  # its own first try deleted it
    assert direct.get_queue_attributes("q").msgs == 0


def test_a_message_of_a_lost_receive_comes_back(proxy: Proxy, namespace: Pair) -> None:
    direct, rsmq = namespace
    id = direct.send_message("q", "m")
    proxy.fail(b"EVALSHA", "lose_reply")
    with pytest.raises(ackq.UnknownOutcome):
        rsmq.receive_message("q", vt=1)
    assert direct.get_queue_attributes("q").totalrecv == 1
    again = rsmq.receive_message("q", timeout=10)
    assert (again.id, again.rc) == (id, 2)


def test_a_lost_wait_goes_on(proxy: Proxy, namespace: Pair) -> None:
    direct, rsmq = namespace
    fault = proxy.fail(b"BLPOP", "lose_reply")
    direct.send_message("q", "m", delay=1)
    assert rsmq.receive_message("q", timeout=10).message == "m"
    assert fault.hit == 1


def test_scripts_that_the_server_forgot_are_sent_anew(server: Server, namespace: Pair) -> None:
    _, rsmq = namespace
    with redis.Redis.from_url(server.url) as client:
        for _ in range(2):
            client.script_flush()
            rsmq.send_message("q", "m")
            client.script_flush()
            assert rsmq.delete_message("q", rsmq.receive_message("q").id)
