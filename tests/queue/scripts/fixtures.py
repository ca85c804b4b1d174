"""Fixtures of the script tests, which the mutants use on other copies of the scripts."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from ackq import scripts
from tests.queue.scripts.space import Space
from tests.servers import Fleet, private_server
from tests.servers.binaries import (
    bundled_valkey,
    newest_server,
    oldest_server,
    system_server,
)

#: The plain servers, each with its binary.
BINARIES = {
    "oldest": oldest_server,
    "debian": system_server,
    "newest": newest_server,
    "valkey": bundled_valkey,
}


@pytest.fixture
def scripts_directory() -> Path:
    """The folder of the scripts under test."""
    return scripts.directory()


@pytest.fixture
def space(kind: str, fleet: Fleet, name: str, scripts_directory: Path) -> Space:
    """The key space of an empty queue."""
    return Space(fleet.get(kind).control, name, scripts_directory)


@pytest.fixture(scope="session")
def own_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """``own_client(kind)``: a client of a server whose settings tests may change."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def client_of(kind: str) -> Any:
            directory = tmp_path_factory.mktemp(f"own-{kind}")
            server = stack.enter_context(private_server(directory, BINARIES[kind]()))
            client = redis.Redis.from_url(server.url)
            stack.callback(client.close)
            return client

        yield client_of


@pytest.fixture
def own_space(
    kind: str, own_client: Callable[[str], Any], name: str, scripts_directory: Path
) -> Iterator[Space]:
    """The key space of an empty queue on a server whose settings the test may change."""
    client = own_client(kind)
    yield Space(client, name, scripts_directory)
    client.replicaof("NO", "ONE")
    client.config_set("maxmemory", 0)
    client.config_set("min-replicas-to-write", 0)
    client.flushdb()


@pytest.fixture
def left(space: Space) -> Space:
    """The keys of a queue that is popped from the left."""
    return space.popped_from_the_left()
