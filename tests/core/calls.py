"""Which operation each method of a client runs, and with which arguments.

`calls.txt` shows the signature of every public method, so every default too, and two calls of it:
with the least arguments, and with all. If one changes on purpose, write them again with
``python -m tests.core.calls``, and look at the difference.
"""

import asyncio
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
import redis.asyncio

from ackq import AsyncQueue, Message, Queue
from ackq.delay import AsyncDelayQueue, AsyncPartitionedDelayQueue
from ackq.delay.messages import DelayedMessage
from ackq.delay.staging_client import DelayStaging
from ackq.membership.client import ConsumerGroup
from ackq.membership.client_async import AsyncConsumerGroup
from ackq.queue.claims_client import Claims
from ackq.queue.row_dead_letters_client import RowDeadLetters
from ackq.queue.staging_client import Staging
from ackq.rsmq import AsyncRSMQ
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from ackq.staging.keys import Staged
from ackq.topic import AsyncTopic
from ackq.topic.messages import Batch
from ackq.topic.staging_client import TopicStaging
from ackq.worker import (
    Again,
    AsyncWorker,
    Backoff,
    Health,
    RateLimit,
    Reject,
    Schedule,
    Worker,
)
from tests.traces import write

FILE = Path(__file__).with_name("calls.txt")
BLOCKING, ASYNC = redis.Redis, redis.asyncio.Redis
#: Each class, and how a test makes one.
CLIENTS: list[tuple[Any, Any]] = [
    (AsyncQueue, lambda: AsyncQueue(ASYNC(), "q")),
    (Claims, lambda: Claims(BLOCKING(), "q", "g")),
    (RowDeadLetters, lambda: RowDeadLetters(BLOCKING(), "q", "w")),
    (AsyncDelayQueue, lambda: AsyncDelayQueue(ASYNC(), "d")),
    (AsyncPartitionedDelayQueue, lambda: AsyncPartitionedDelayQueue(ASYNC(), "d", 4)),
    (AsyncTopic, lambda: AsyncTopic(ASYNC(), "t")),
    (AsyncRSMQ, lambda: AsyncRSMQ(ASYNC())),
    (Staging, lambda: Staging(BLOCKING(), "q", "w")),
    (DelayStaging, lambda: DelayStaging(BLOCKING(), "d", "w")),
    (TopicStaging, lambda: TopicStaging(BLOCKING(), "t", "w")),
    (ConsumerGroup, lambda: ConsumerGroup(BLOCKING(), "g", 4)),
    (AsyncConsumerGroup, lambda: AsyncConsumerGroup(ASYNC(), "g", 4)),
]
#: Classes whose defaults users see.
OTHERS = (
    Batch,
    DelayedMessage,
    Message,
    Worker,
    AsyncWorker,
    Health,
    Schedule,
    RateLimit,
    Backoff,
    Again,
    Reject,
    ShardedQueue,
    AsyncShardedQueue,
    Queue,
    AsyncQueue,
)
#: Methods that do more than to run one operation: their signatures alone are shown.
SIGNATURES = {
    "__init__",
    "from_url",
    "consume",
    "aclose",
    "close",
    "heartbeat",
    "join",
    "leave",
    "lease",
    "beside",
    "beginning",
    "execute",
    "with_config",
    "adopt",
}
#: What an operation returns, if a method makes more of it than to return it.
RESULTS: dict[str, Any] = {
    "receive_message": ["first"],
    "pop_message": ["first"],
    "pop": ["first"],
    "join": None,
    "delete_message": 1,
}
#: An argument of each name whose type does not say what it may be.
VALUES: dict[str, Any] = {
    "ack": ["m3"],
    "group": "g",
    "after": "7-0",
    "at": 2.5,
    "at_ms": 25,
    "batch": 3,
    "batches": ("b1", "b2"),
    "bodies": [b"x"],
    "body": b"body",
    "changes": {"vt": 4},
    "confirm": 1,
    "consumer": "me",
    "count": 13,
    "cursor": (0, 1.5, "k"),
    "dead": True,
    "dedup": "once",
    "dedup_window": 6.5,
    "delay": 1.5,
    "delay_ms": 15,
    "delayed": [(1, b"y")],
    "due": 9,
    "entries": ["1-0", "2-0"],
    "error": ValueError("why"),
    "id": "i",
    "ids": ("i", "j"),
    "first": 14,
    "front": True,
    "force": True,
    "replace": True,
    "unique": "taken",
    "unique_by": ["n"],
    "unique_for": 20,
    "in_flight": True,
    "running": True,
    "last": 15,
    "keep": 8,
    "key": "k",
    "keys": ("k", "l"),
    "message": b"m",
    "message_id": "i",
    "max_receives": 6,
    "maxsize": 1024,
    "messages": ["m1", "m2"],
    "limit": 19,
    "n": 7,
    "on_progress": len,
    "partition": 1,
    "qname": "jobs",
    "reason": "no",
    "repair": True,
    "rows": ["r"],
    "size": 16,
    "skip": 17,
    "staged": Staged("task"),
    "start": "newest",
    "state": "delayed",
    "task": "other",
    "tasks": [Staged("task")],
    "timeout": 3.5,
    "to": "oldest",
    "up_to": 18,
    "vt": 11,
    "where": {"f": 1},
    "within": 20,
    "visibility_timeout": 4.5,
    "window": 5.5,
}


class Driver:
    """Notes operations instead of running them."""

    def __init__(self, route: Any) -> None:
        self.route = route
        self.ran: list[str] = []
        self.result: Any = 5

    def run(self, steps: Any) -> Any:
        given = steps.gi_frame.f_locals
        arguments = ", ".join(
            type(each).__name__ if name == "spec" else f"{name}={_text(each)}"
            for name, each in given.items()
        )
        self.ran.append(f"{steps.gi_code.co_name}({arguments})")
        steps.close()
        return self.result


class AsyncDriver(Driver):
    async def run(self, steps: Any) -> Any:
        return super().run(steps)


class Members:
    """A consumer group that has been joined."""

    session = "the session"
    partitions = (1, 2)

    def __init__(self) -> None:
        self.joined = self.left = 0

    async def join(self) -> Any:
        self.joined += 1
        return self

    async def aclose(self) -> None:
        self.left += 1


def _text(value: Any) -> str:
    return re.sub(r" at 0x\w+", "", re.sub(r"<function (\S+) at", r"<\1 at", repr(value)))


def _methods(kind: Any) -> Iterator[tuple[str, Any]]:
    for name, method in inspect.getmembers(kind, inspect.isroutine):
        if name == "__init__" or not name.startswith("_"):
            yield name, inspect.signature(method)


def _called(client: Any, name: str, signature: inspect.Signature, whole: bool) -> str:
    positional: list[Any] = []
    named = {}
    for each in list(signature.parameters.values())[1:]:
        if each.kind is each.VAR_KEYWORD:
            continue
        if each.kind is each.VAR_POSITIONAL:
            positional += _value_of(each)
        elif each.default is each.empty and each.kind is not each.KEYWORD_ONLY:
            positional.append(_value_of(each))
        elif whole or each.default is each.empty:
            named[each.name] = _value_of(each)
    client._checked = True
    if isinstance(client, AsyncPartitionedDelayQueue):
        client._members = Members()  # type: ignore[assignment]
    waits = inspect.iscoroutinefunction(getattr(client, name))
    client._driver = driver = (AsyncDriver if waits else Driver)(client._driver.route)
    driver.result = RESULTS.get(name, 5)
    found = getattr(client, name)(*positional, **named)
    if inspect.iscoroutine(found):
        found = asyncio.run(found)
    given = [*map(_text, positional), *(f"{name}={_text(each)}" for name, each in named.items())]
    return f"  {name}({', '.join(given)}) runs {' then '.join(driver.ran)} = {_text(found)}"


def _value_of(parameter: inspect.Parameter) -> Any:
    """Return an argument for a parameter: a different one for each name."""
    if parameter.name in VALUES:
        return VALUES[parameter.name]
    number = 21 + sum(parameter.name.encode()) % 1000
    by_type = {"bool": True, "int": number, "float": number + 0.5, "Seconds": number + 0.5}
    return by_type.get(parameter.annotation.partition(" |")[0], parameter.name)


def trace(title: str) -> str:
    """Return what one of the classes does."""
    for kind, make in CLIENTS:
        if title == f"# {kind.__name__}":
            return "\n".join([title, *_shown(kind, make)])
    others = [f"{kind.__name__}{_without_types(inspect.signature(kind))}" for kind in OTHERS]
    return "\n".join([title, *others])


def _without_types(signature: inspect.Signature) -> inspect.Signature:
    empty = inspect.Signature.empty
    parameters = [each.replace(annotation=empty) for each in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=empty)


def _shown(kind: Any, make: Any) -> Iterator[str]:
    for name, signature in _methods(kind):
        yield f"{name}{_without_types(signature)}"
        if name not in SIGNATURES:
            calls = [_called(make(), name, signature, whole) for whole in (False, True)]
            yield from dict.fromkeys(calls)


TITLES = [*(f"# {kind.__name__}" for kind, _ in CLIENTS), "# Other classes"]

if __name__ == "__main__":
    write(FILE, map(trace, TITLES))
