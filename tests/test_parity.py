"""What generation cannot guarantee of the blocking clients. `make lint` sees if they are stale."""

import inspect

import pytest

import ackq
import ackq.delay
import ackq.rsmq
import ackq.sharded
import ackq.topic
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
PLAIN = {"beginning", "beside", "from_url", "lease", "queue_of", "with_config"}


@pytest.mark.parametrize("cls", AWAITED)
def test_what_asks_a_server_is_awaited_and_documented(cls: type) -> None:
    for name, method in inspect.getmembers(cls, inspect.isroutine):
        if not name.startswith("_"):
            assert name in PLAIN or inspect.iscoroutinefunction(method), name
            assert inspect.getdoc(method), f"{name} has no docstring"
