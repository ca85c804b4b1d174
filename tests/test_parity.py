"""The two faces are one API: same names, parameters, defaults and promises."""

from __future__ import annotations

import inspect
import re

import pytest

import ackq
import ackq.core.client
import ackq.core.client_async
import ackq.delay
import ackq.delay.base_client
import ackq.delay.base_client_async
import ackq.membership.client
import ackq.membership.client_async
import ackq.rsmq
import ackq.sharded
import ackq.topic

#: Every blocking class with its twin.
PAIRS = [
    (ackq.core.client.Client, ackq.core.client_async.Client),
    (ackq.Queue, ackq.AsyncQueue),
    (ackq.rsmq.RSMQ, ackq.rsmq.AsyncRSMQ),
    (ackq.topic.Topic, ackq.topic.AsyncTopic),
    (ackq.delay.base_client.DelayTopic, ackq.delay.base_client_async.DelayTopic),
    (ackq.delay.DelayQueue, ackq.delay.AsyncDelayQueue),
    (ackq.delay.PartitionedDelayQueue, ackq.delay.AsyncPartitionedDelayQueue),
    (ackq.membership.client.Members, ackq.membership.client_async.AsyncMembers),
    (ackq.sharded.ShardedQueue, ackq.sharded.AsyncShardedQueue),
]
#: What asyncio calls otherwise.
RENAMED = {
    "close": "aclose",
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__iter__": "__aiter__",
}
#: What needs no server, and so is not awaited on either side.
PLAIN = {"from_url", "lease"}
METHODS = [
    pytest.param(one, twin, name, id=f"{one.__name__}.{name}")
    for one, twin in PAIRS
    for name, value in vars(one).items()
    if inspect.isroutine(value) and not name.startswith("_")
]


@pytest.mark.parametrize(("one", "twin"), PAIRS)
def test_both_have_the_same_methods(one: type, twin: type) -> None:
    assert {RENAMED.get(name, name) for name in _routines(one)} == _routines(twin)


@pytest.mark.parametrize(("one", "twin", "name"), METHODS)
def test_a_method_has_one_signature_and_one_docstring(one: type, twin: type, name: str) -> None:
    blocking, awaited = getattr(one, name), getattr(twin, RENAMED.get(name, name))
    assert _parameters(blocking) == _parameters(awaited)
    assert inspect.getdoc(blocking) == inspect.getdoc(awaited)
    assert inspect.getdoc(blocking), f"{name} has no docstring"


@pytest.mark.parametrize(("one", "twin", "name"), METHODS)
def test_what_asks_a_server_is_awaited(one: type, twin: type, name: str) -> None:
    assert name in PLAIN or inspect.iscoroutinefunction(getattr(twin, RENAMED.get(name, name)))


@pytest.mark.parametrize(("one", "twin"), PAIRS)
def test_only_the_client_differs_between_the_constructors(one: type, twin: type) -> None:
    blocking, awaited = _parameters(one), _parameters(twin)
    assert blocking.pop("client") != awaited.pop("client")
    assert blocking == awaited


def _routines(cls: type) -> set[str]:
    return {name for name, value in vars(cls).items() if inspect.isroutine(value)}


def _parameters(function: object) -> dict[str, tuple[str, str]]:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    return {
        name: (re.sub(r"\s", "", str(each.annotation)), repr(each.default))
        for name, each in signature.parameters.items()
    }
