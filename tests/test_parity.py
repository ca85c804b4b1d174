"""What generation cannot guarantee of the blocking clients. `make lint` sees if they are stale."""

from __future__ import annotations

import inspect

import pytest

import ackq
import ackq.delay
import ackq.rsmq
import ackq.sharded
import ackq.topic
from ackq.membership.client import ConsumerGroup
from ackq.membership.client_async import AsyncConsumerGroup

#: The asyncio classes that users meet.
AWAITED = (
    ackq.AsyncQueue,
    ackq.rsmq.AsyncRSMQ,
    ackq.topic.AsyncTopic,
    ackq.delay.AsyncDelayQueue,
    ackq.delay.AsyncPartitionedDelayQueue,
    ackq.sharded.AsyncShardedQueue,
    AsyncConsumerGroup,
)
#: What needs no server, and so is not awaited.
PLAIN = {"beginning", "beside", "from_url", "lease", "with_config"}
METHODS = [
    pytest.param(cls, name, id=f"{cls.__name__}.{name}")
    for cls in AWAITED
    for name, value in inspect.getmembers(cls, inspect.isroutine)
    if not name.startswith("_")
]


@pytest.mark.parametrize(("cls", "name"), METHODS)
def test_what_asks_a_server_is_awaited_and_documented(cls: type, name: str) -> None:
    method = getattr(cls, name)
    assert name in PLAIN or inspect.iscoroutinefunction(method)
    assert inspect.getdoc(method), f"{name} has no docstring"


def test_the_twins_that_are_written_by_hand_have_the_same_methods() -> None:
    renamed = {"close": "aclose", "__enter__": "__aenter__", "__exit__": "__aexit__"}
    blocking, awaited = vars(ConsumerGroup), vars(AsyncConsumerGroup)
    for name in filter(lambda name: not name.startswith("_"), blocking):
        one, other = blocking[name], awaited[renamed.get(name, name)]
        assert inspect.getdoc(one) == inspect.getdoc(other)
        if inspect.isroutine(one):
            assert inspect.signature(one).parameters == inspect.signature(other).parameters
