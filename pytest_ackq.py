"""The pytest plugin of ackq: fixtures for tests of programs that use queues.

pytest loads it in every run, so it imports ackq only when a test asks for a fixture.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import redis

    import ackq


@pytest.fixture(scope="session")
def ackq_url() -> Iterator[str]:
    """The URL of a Redis for tests: ``$ACKQ_TEST_URL``, else a private server of this session."""
    from ackq.testing import server_url

    with server_url() as url:
        yield url


@pytest.fixture
def ackq_client(ackq_url: str) -> Iterator[redis.Redis]:
    """A blocking client of redis-py for that server."""
    from ackq.core.client import client_of

    with client_of(ackq_url) as client:
        yield client


@pytest.fixture
def ackq_queue(ackq_client: redis.Redis) -> Iterator[Callable[..., ackq.Queue]]:
    """A function that makes queues: ``ackq_queue(name=None, **settings)``.

    Without a name, each queue gets one that no other test uses, so that tests may run at the same
    time. After the test, the queues are closed and their keys deleted.
    """
    import ackq
    from ackq.testing import delete

    made: list[ackq.Queue] = []

    def make(name: str | None = None, **settings: Any) -> ackq.Queue:
        made.append(ackq.Queue(ackq_client, name or f"test-{secrets.token_hex(6)}", **settings))
        return made[-1]

    yield make
    for queue in made:
        queue.close()
        delete(ackq_client, queue.name)
