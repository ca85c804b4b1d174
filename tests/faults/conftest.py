"""Fixtures of the fault tests: private servers, queues on them, and how long to go on."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

import ackq
from ackq.embedded import Server
from tests.servers import private_server

from .proxy import Proxy


@pytest.fixture(scope="session")
def soak() -> float:
    """How many times as long as in CI to go on: ``ACKQ_SOAK=20``."""
    return float(os.environ.get("ACKQ_SOAK", "1"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of this module's own."""
    with private_server(tmp_path_factory.mktemp("server"), appendfsync="everysec") as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """A client of it, for looking at it; it is emptied after the test."""
    with redis.Redis.from_url(server.url) as client:
        yield client
        client.flushall()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A proxy before the module's server."""
    assert server.port is not None
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def queue_at() -> Iterator[Callable[..., ackq.Queue]]:
    """``queue_at(url, **settings)``: the queue ``jobs`` there, closed after the test."""
    with contextlib.ExitStack() as stack:

        def make(url: str, name: str = "jobs", **settings: object) -> ackq.Queue:
            queue = ackq.Queue.from_url(url, name, **settings)
            stack.callback(queue.close)
            return queue

        yield make


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Where a child process writes its events."""
    return tmp_path / "events.jsonl"


@pytest.fixture
def queue(queue_at: Callable[..., ackq.Queue], server: Server) -> ackq.Queue:
    """The queue ``jobs`` on the server."""
    return queue_at(server.url)
