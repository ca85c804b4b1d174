"""The calls of `ackq.testing`, each for a blocking queue and for one of asyncio."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackq import AsyncQueue, Queue
from tests.facade import Portal


@pytest.fixture
def queue(url: str, token: str) -> Iterator[Queue]:
    with Queue.from_url(url, token) as queue:
        yield queue


@pytest.fixture(params=["blocking", "asyncio"])
def call(
    request: pytest.FixtureRequest, queue: Queue, url: str, portal: Portal
) -> Callable[..., Any]:
    """``call(function, *args, **settings)``: call it with the queue, in both flavours."""
    if request.param == "blocking":
        return lambda function, *args, **settings: function(queue, *args, **settings)

    async def run(function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        async with AsyncQueue.from_url(url, queue.name) as twin:
            return await function(twin, *args, **settings)

    return lambda *args, **settings: portal.call(run, *args, **settings)
