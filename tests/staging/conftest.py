"""Fixtures: stagings of this test's queue, topic or delay queue."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackq import Queue
from ackq.delay.staging_client import DelayStaging
from ackq.queue.staging_client import Staging
from ackq.topic.staging_client import TopicStaging
from tests.servers import Target

Make = Callable[..., Any]


@pytest.fixture
def opened(target: Target) -> Iterator[Callable[..., Any]]:
    """``opened(cls, *args, **settings)``: an object with connections of its own, closed later."""
    with contextlib.ExitStack() as stack:

        def make(cls: Any, *args: Any, **settings: Any) -> Any:
            client = stack.enter_context(target.make_client())
            return stack.enter_context(contextlib.closing(cls(client, *args, **settings)))

        yield make


@pytest.fixture
def make(opened: Make, name: str) -> Make:
    """``make(writer)``: a writer of this test's queue."""
    return lambda writer="query": opened(Staging, name, writer)


@pytest.fixture
def queue(opened: Make, name: str) -> Queue:
    """The queue."""
    made: Queue = opened(Queue, name)
    return made


@pytest.fixture
def make_topic_writer(opened: Make, name: str) -> Make:
    """``make_topic_writer(writer, **settings)``: a writer of this test's topic."""
    return lambda writer="query", **settings: opened(TopicStaging, name, writer, **settings)


@pytest.fixture
def make_delay_writer(opened: Make, name: str) -> Make:
    """``make_delay_writer(writer, partitions=None)``: a writer of this test's delay queue."""
    return lambda writer="query", **settings: opened(DelayStaging, name, writer, **settings)
