"""One server for the tests of this folder, so that few are started."""

from collections.abc import Iterator

import pytest

import ackq
from ackq.embedded import Server
from tests.servers import private_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose password tests may set for a while."""
    with private_server(tmp_path_factory.mktemp("processes"), appendfsync="everysec") as server:
        yield server


@pytest.fixture
def queue(server: Server, token: str) -> Iterator[ackq.Queue]:
    """The queue of this test."""
    with ackq.Queue.from_url(server.url, token) as queue:
        yield queue
