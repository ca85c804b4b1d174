"""The calls of `ackq.testing`, each for a blocking queue and for one of asyncio."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from ackq import AsyncQueue, Queue
from ackq.testing import delete, server_url
from tests.facade import Portal


@pytest.fixture(scope="session")
def kit_url() -> Iterator[str]:
    """The URL of a server for users' tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ACKQ_TEST_URL", raising=False)
        with server_url() as url:
            yield url


@pytest.fixture
def queue(kit_url: str, token: str) -> Iterator[Queue]:
    with Queue.from_url(kit_url, token) as queue:
        yield queue
        with redis.Redis.from_url(kit_url) as client:
            delete(client, token)


@pytest.fixture(params=["blocking", "asyncio"])
def call(
    request: pytest.FixtureRequest, queue: Queue, kit_url: str, portal: Portal
) -> Callable[..., Any]:
    """``call(function, *args, **settings)``: call it with the queue, in both flavours."""
    if request.param == "blocking":
        return lambda function, *args, **settings: function(queue, *args, **settings)

    async def run(function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        async with AsyncQueue.from_url(kit_url, queue.name) as twin:
            return await function(twin, *args, **settings)

    return lambda *args, **settings: portal.call(run, *args, **settings)
