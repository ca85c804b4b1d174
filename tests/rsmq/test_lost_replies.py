"""A reply that never comes: a request that may not run twice is not sent again, and raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import ackq
from ackq import scripts
from ackq.embedded import Server
from ackq.rsmq import RSMQ, AsyncRSMQ
from tests.facade import AsSync, Portal
from tests.faults.proxy import PATIENCE, SILENCE, Kind, Proxy
from tests.servers import private_server

LOST: list[Kind] = ["lose_reply", "swallow_reply"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with private_server(tmp_path_factory.mktemp("server"), appendfsync="no") as server:
        yield server


@pytest.fixture
def direct(server: Server, token: str) -> Iterator[RSMQ]:
    """The namespace past the proxy, every script loaded: NOSCRIPT would be lost, too."""
    with redis.Redis.from_url(server.url) as client, RSMQ(client, token) as direct:
        for name in scripts.names():
            client.script_load(scripts.load(name).text)
        direct.create_queue("q")
        yield direct


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    assert server.port is not None
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def rsmq(
    request: pytest.FixtureRequest,
    proxy: Proxy,
    direct: RSMQ,
    token: str,
    flavour: str,
    portal: Portal,
) -> Iterator[Any]:
    """The namespace through the proxy, with a short read timeout only where no reply comes."""
    silent = request.node.callspec.params.get("kind") == "swallow_reply"
    url = f"{proxy.url}?socket_timeout={SILENCE if silent else PATIENCE}"
    if flavour == "sync":
        rsmq: Any = RSMQ.from_url(url, token)
    else:
        rsmq = AsSync(portal, portal.call(AsyncRSMQ.from_url, url, token))
    rsmq.get_queue_attributes("q")
    yield rsmq
    rsmq.close()


@pytest.mark.parametrize("kind", LOST)
def test_what_would_do_harm_twice_is_not_sent_again(
    proxy: Proxy, direct: RSMQ, rsmq: RSMQ, kind: Kind
) -> None:
    operations: list[tuple[Callable[[], Any], int]] = [
        (lambda: rsmq.send_message("q", "m"), 1),
        (lambda: rsmq.send_messages("q", ["m", "m"]), 3),
        (lambda: rsmq.receive_message("q"), 3),
        (lambda: rsmq.pop_message("q"), 2),
        (lambda: rsmq.redrive("q", 1), 2),
        (lambda: rsmq.create_queue("p"), 2),
        (lambda: rsmq.delete_queue("p"), 2),
    ]
    for operate, left in operations:
        before = proxy.count(b"EVALSHA")
        proxy.fail(b"EVALSHA", kind)
        with pytest.raises(ackq.UnknownOutcome):
            operate()
        assert proxy.count(b"EVALSHA") - before == 1
        assert direct.get_queue_attributes("q").msgs == left
    assert direct.list_queues() == ["q"]


@pytest.mark.parametrize("kind", LOST)
def test_what_does_no_harm_twice_is_sent_again(
    proxy: Proxy, direct: RSMQ, rsmq: RSMQ, kind: Kind
) -> None:
    id = direct.send_message("q", "m", delay=1000)
    proxy.fail(b"EVALSHA", kind)
    assert rsmq.change_message_visibility("q", id, 2000) is True
    proxy.fail(b"EVALSHA", kind)
    assert rsmq.set_queue_attributes("q", vt=7).vt == 7
    proxy.fail(b"EVALSHA", kind)
    assert rsmq.get_queue_attributes("q").msgs == 1
    proxy.fail(b"SMEMBERS", kind)
    assert rsmq.list_queues() == ["q"]
    proxy.fail(b"EVALSHA", kind)
    assert rsmq.delete_message("q", id) is False  # its own first try deleted it
    assert direct.get_queue_attributes("q").msgs == 0


def test_a_message_of_a_lost_receive_comes_back(proxy: Proxy, direct: RSMQ, rsmq: Any) -> None:
    id = direct.send_message("q", "m")
    proxy.fail(b"EVALSHA", "lose_reply")
    with pytest.raises(ackq.UnknownOutcome):
        rsmq.receive_message("q", vt=1)
    assert direct.get_queue_attributes("q").totalrecv == 1
    again = rsmq.receive_message("q", timeout=10)
    assert (again.id, again.rc) == (id, 2)


def test_send_messages_says_how_many_are_surely_stored(
    proxy: Proxy, direct: RSMQ, rsmq: RSMQ
) -> None:
    proxy.fail(b"EVALSHA", "lose_reply", skip=1)
    with pytest.raises(ackq.UnknownOutcome) as caught:
        rsmq.send_messages("q", [str(n) for n in range(2500)])
    assert caught.value.stored == 1000
    assert direct.get_queue_attributes("q").msgs == 2000


def test_a_lost_wait_goes_on(proxy: Proxy, direct: RSMQ, rsmq: Any) -> None:
    fault = proxy.fail(b"BLPOP", "lose_reply")
    direct.send_message("q", "m", delay=1)
    assert rsmq.receive_message("q", timeout=10).message == "m"
    assert fault.hit == 1


def test_scripts_that_the_server_forgot_are_sent_anew(
    server: Server, direct: RSMQ, rsmq: Any
) -> None:
    with redis.Redis.from_url(server.url) as client:
        for _ in range(2):
            client.script_flush()
            rsmq.send_message("q", "m")
            client.script_flush()
            assert rsmq.delete_message("q", rsmq.receive_message("q").id)
