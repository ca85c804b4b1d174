"""Whoever connects and says nothing, or speaks slowly, keeps no one else out."""

import asyncio
import http.client
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import pytest
import redis

from ackq.web import application, connections, forms
from tests.waiting import wait_until
from tests.web.conftest import served
from tests.web.test_guard import basic

Address = tuple[str, int]


def address_in(url: str) -> Address:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


@pytest.fixture
def address(site: str) -> Address:
    return address_in(site)


def status_of(address: Address, path: str = "/static/ackq.css", **headers: str) -> int:
    with closing(http.client.HTTPConnection(*address, timeout=20)) as client:
        client.request("GET", path, headers=headers)
        return client.getresponse().status


@pytest.fixture
def opened(address: Address) -> Iterator[list[socket.socket]]:
    """Connections to the page; a test may add more."""
    with ExitStack() as stack:
        found: list[socket.socket] = []
        yield found
        for each in found:
            stack.callback(each.close)


def test_idle_connections_keep_nobody_out(address: Address, opened: list[socket.socket]) -> None:
    for _ in range(connections.MAX_CONNECTIONS + 50):
        opened.append(socket.create_connection(address, timeout=20))
        assert len(opened) % 50 or status_of(address) == 200
    # The first ones made room for those that came later.
    assert opened[0].recv(1) == b""


def test_wrong_passwords_keep_nobody_out(
    plain_client: redis.Redis, opened: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[float] = []

    async def wait(seconds: float) -> None:
        refused.append(seconds)
        while refused:
            await asyncio.sleep(0.1)

    monkeypatch.setattr("ackq.web.guard.anyio.sleep", wait)
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic eDp5\r\n\r\n"
    with served(application(plain_client, users={"ada": "correct horse battery"})) as url:
        for _ in range(connections.MAX_CONNECTIONS):
            opened.append(socket.create_connection(address_in(url), timeout=20))
            opened[-1].sendall(request)
        wait_until(lambda: len(refused) == len(opened), "all to be refused")
        status = status_of(address_in(url), **basic("ada", "correct horse battery"))
        refused.clear()
    assert status == 200


def test_a_head_that_does_not_arrive_in_time_ends_its_connection(
    address: Address, opened: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_TIME", 0.1)
    for begun in (b"", b"GET / HTTP/1.1\r\nHost: local"):
        opened.append(socket.create_connection(address, timeout=20))
        opened[-1].sendall(begun)
        assert opened[-1].recv(1) == b""
    with closing(http.client.HTTPConnection(*address, timeout=20)) as kept:
        kept.request("GET", "/static/ackq.css")
        assert kept.getresponse().read()


def test_a_form_that_does_not_arrive_in_time_is_refused(
    operating: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "MAX_TIME", 0.1)
    host = urlsplit(operating).netloc
    with closing(http.client.HTTPConnection(host, timeout=20)) as slow:
        slow.putrequest("POST", "/operate")
        slow.putheader("Origin", f"http://{host}")
        slow.putheader("Content-Type", "application/x-www-form-urlencoded")
        slow.putheader("Content-Length", "1000")
        slow.endheaders(b"token=")
        assert slow.getresponse().status == 408


def test_a_websocket_is_answered_without_a_word_in_the_log(
    address: Address, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handlers", [caplog.handler])
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    assert status_of(address, "/static/ackq.css", **upgrade) == 200
    assert caplog.records == []
