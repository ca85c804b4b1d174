"""Fixtures of the delay queue's tests."""

from collections.abc import Callable
from typing import Any, Protocol, overload

import pytest
import redis

from ackq import scripts
from ackq.delay import (
    AsyncDelayQueue,
    AsyncPartitionedDelayQueue,
    DelayQueue,
    PartitionedDelayQueue,
)
from tests.delay.article import Article
from tests.delay.partition import Partition
from tests.servers import Target


class MakeDelay(Protocol):
    """The type of `make_delay`. An asynchronous queue is called like its blocking twin."""

    @overload
    def __call__(self, partitions: None = ..., name: str = ..., **settings: Any) -> DelayQueue: ...
    @overload
    def __call__(
        self, partitions: int, name: str = ..., **settings: Any
    ) -> PartitionedDelayQueue: ...


@pytest.fixture
def make_delay(make_flavoured: Callable[..., Any], name: str) -> MakeDelay:
    """``make_delay(partitions=None, **settings)``: this test's queue, with its own connections."""

    def make(partitions: int | None = None, name: str = name, **settings: Any) -> Any:
        if partitions is None:
            return make_flavoured(DelayQueue, AsyncDelayQueue, name, **settings)
        kinds = (PartitionedDelayQueue, AsyncPartitionedDelayQueue)
        return make_flavoured(*kinds, name, partitions, **settings)

    return make


@pytest.fixture
def delay(make_delay: MakeDelay) -> DelayQueue:
    """A delay queue with default settings."""
    return make_delay()


@pytest.fixture
def handle(flavour: str) -> Callable[[Callable[[Any], object]], Any]:
    """``handle(function)``: the function as a handler of the test's flavour."""

    def of(function: Callable[[Any], object]) -> Any:
        async def awaited(message: Any) -> None:
            function(message)

        return function if flavour == "sync" else awaited

    return of


@pytest.fixture
def article(target: Target, name: str) -> Article:
    """A producer and consumer that know only the article."""
    return Article(target.control, name)


@pytest.fixture
def partition(plain_client: redis.Redis, name: str) -> Partition:
    """The key space of an empty delay queue."""
    return Partition(plain_client, name, scripts.directory())
