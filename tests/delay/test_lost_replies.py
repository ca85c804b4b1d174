"""A reply that never comes: a request is sent again only if running it twice does no harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import ackq
from ackq import scripts
from ackq.delay import AsyncDelayQueue, DelayEntry, DelayQueue
from ackq.embedded import Server
from tests.facade import AsSync, Portal
from tests.faults.proxy import Proxy
from tests.servers import private_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with private_server(tmp_path_factory.mktemp("server"), appendfsync="no") as server:
        yield server


@pytest.fixture
def direct(server: Server, token: str) -> Iterator[DelayQueue]:
    """The topic past the proxy, every script loaded: NOSCRIPT would be lost, too."""
    with redis.Redis.from_url(server.url) as client, DelayQueue(client, token) as direct:
        for name in scripts.names():
            client.script_load(scripts.load(name).text)
        yield direct


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    assert server.port is not None
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def delay(
    proxy: Proxy, direct: DelayQueue, token: str, flavour: str, portal: Portal
) -> Iterator[Any]:
    """The topic through the proxy."""
    if flavour == "sync":
        delay: Any = DelayQueue.from_url(proxy.url, token)
    else:
        delay = AsSync(portal, portal.call(AsyncDelayQueue.from_url, proxy.url, token))
    delay.stats()
    yield delay
    delay.close()


def test_what_would_do_harm_twice_is_not_sent_again(
    proxy: Proxy, direct: DelayQueue, delay: DelayQueue
) -> None:
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


def test_what_does_no_harm_twice_is_sent_again(
    proxy: Proxy, direct: DelayQueue, delay: DelayQueue
) -> None:
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


def test_push_many_says_how_many_are_surely_stored(
    proxy: Proxy, direct: DelayQueue, delay: DelayQueue
) -> None:
    proxy.fail(b"EVALSHA", "lose_reply", skip=1)
    with pytest.raises(ackq.UnknownOutcome) as caught:
        delay.push_many(DelayEntry(str(number), b"") for number in range(2500))
    assert caught.value.stored == 500
    assert direct.stats().ready == 1000
