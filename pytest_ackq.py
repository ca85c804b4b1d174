"""The pytest plugin of ackq: fixtures for tests of programs that use queues.

pytest loads it in every run, so it imports ackq only when a test asks for a fixture.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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
    time. On the server of ``$ACKQ_TEST_URL``, a name begins with ``test-``. After the test, the
    queues are closed and their keys deleted.
    """
    import ackq
    from ackq.testing import delete
    from ackq.testing.servers import check

    made: list[ackq.Queue] = []

    def make(name: str | None = None, **settings: Any) -> ackq.Queue:
        queue = ackq.Queue(ackq_client, name or f"test-{secrets.token_hex(6)}", **settings)
        queue.execute(check)  # before its keys are deleted
        made.append(queue)
        return queue

    yield make
    for queue in made:
        queue.close()
        delete(ackq_client, queue.name)


@pytest.fixture
def ackq_tasks(ackq_url: str) -> Iterator[Callable[..., Any]]:
    """A function that connects tasks to the server of tests: ``ackq_tasks(tasks)``.

    It returns the first of them. In this test they have queues of their own, whose keys are deleted
    afterwards; then the tasks have their former server again.
    """
    from ackq.testing import connected

    with ExitStack() as stack:
        known: set[int] = set()

        def connect(*tasks: Any) -> Any:
            new = [each for each in tasks if id(each) not in known]
            known.update(map(id, new))
            stack.enter_context(connected(*new, url=ackq_url))
            return tasks[0]

        yield connect
