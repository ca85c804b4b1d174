"""`drain` and `assert_pushed`, for blocking queues and, to be awaited, for those of asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from ackq.config import check_integer
from ackq.core.inspection_results import PeekedMessage
from ackq.errors import ConfigurationError
from ackq.queue.client import Queue
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message
from ackq.setting_types import checked
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from ackq.testing import comparison, deliveries, deliveries_async
from ackq.worker.threads import outside_of_loops
from ackq.worker.verdicts import check_handler, plain_value, plain_value_async

if TYPE_CHECKING:
    from ackq.tasks import AsyncTasks, Tasks

#: A function that gets a message, as a worker's handler does; it may be a coroutine function.
Handler = Callable[[Message], Any]


@overload
def drain(
    queue: Queue | ShardedQueue, handler: Handler, *, delayed: bool = True, limit: int = 10_000
) -> list[Message]: ...
@overload
def drain(
    queue: AsyncQueue | AsyncShardedQueue,
    handler: Handler,
    *,
    delayed: bool = True,
    limit: int = 10_000,
) -> Awaitable[list[Message]]: ...
@overload
def drain(queue: Tasks, *, delayed: bool = True, limit: int = 10_000) -> list[Message]: ...
@overload
def drain(
    queue: AsyncTasks, *, delayed: bool = True, limit: int = 10_000
) -> Awaitable[list[Message]]: ...
@checked
def drain(
    queue: Any, handler: Handler | None = None, *, delayed: bool = True, limit: int = 10_000
) -> list[Message] | Awaitable[list[Message]]:
    """Pass every message of a queue of a test to a handler, here and now, and return the messages.

    Messages are settled as a worker settles them: acked when the handler returns; retried,
    released or rejected when it raises `Again`, `Release` or `Reject`. If it raises another
    exception, the message goes back to the queue, uncounted, and the exception is raised, so the
    test shows it. Messages that the handler pushes are handled too. Leases last one hour. Batch
    tasks get batches.

    Cost: two round trips a message.

    Args:
        queue: a queue; or `ackq.tasks.Tasks`, which handle the messages of all their queues.
            Await the result for an `AsyncQueue`, an `AsyncShardedQueue` or `AsyncTasks`.
        handler: what a worker would call; a function or a coroutine function. None for tasks.
        delayed: handle delayed messages now, soonest first, whatever their due times. Those that
            the handler retries are delayed too. Defaults to True.
        limit: how many messages at most. Defaults to 10000.

    Raises:
        AssertionError: there are more messages than ``limit``.
        ConfigurationError: a queue is not a test's, so nothing was taken from any; see `server_url`
            and `connected`. Or a queue was passed without a handler.
    """
    check_integer(limit, "limit", 1, 1_000_000_000)
    if hasattr(queue, "queue_names"):
        if inspect.iscoroutinefunction(queue.handle):
            return deliveries_async.drain_tasks(queue, delayed, limit)
        return outside_of_loops(partial(deliveries.drain_tasks, queue, delayed, limit))
    if handler is None:
        raise ConfigurationError("pass the handler: drain(queue, handle)")
    check_handler(handler, "handler")
    if isinstance(queue, AsyncQueue | AsyncShardedQueue):
        return deliveries_async.drain({queue: 1}, _awaited(handler), delayed, limit)

    def drained() -> list[Message]:
        with closing(asyncio.Runner()) as runner:  # which makes no loop unless it runs something
            return deliveries.drain({queue: 1}, _run(handler, runner), delayed, limit)

    return outside_of_loops(drained)


@overload
def assert_pushed(
    queue: Queue | ShardedQueue, fields: Mapping[str, Any], *, count: int | None = None
) -> list[PeekedMessage]: ...
@overload
def assert_pushed(
    queue: AsyncQueue | AsyncShardedQueue, fields: Mapping[str, Any], *, count: int | None = None
) -> Awaitable[list[PeekedMessage]]: ...
@checked
def assert_pushed(
    queue: Queue | ShardedQueue | AsyncQueue | AsyncShardedQueue,
    fields: Mapping[str, Any],
    *,
    count: int | None = None,
) -> list[PeekedMessage] | Awaitable[list[PeekedMessage]]:
    """Assert that messages with these fields wait on a queue, and return them.

    It reads the messages that are ready, delayed or in flight, and changes nothing. Cost: one round
    trip per 1,000 messages.

    Args:
        queue: await the result if it is an `AsyncQueue` or an `AsyncShardedQueue`.
        fields: what the JSON object must hold. It may hold more, and so may objects in it.
        count: how many such messages there are; 0 for none. Defaults to None: at least one.

    Raises:
        AssertionError: it shows the messages that are there, and how they differ.
        ConfigurationError: the queue is not a test's; see `server_url`.
    """
    if isinstance(queue, AsyncQueue | AsyncShardedQueue):
        return _selected(queue, fields, count)
    return comparison.selected(deliveries.unsettled(queue), fields, count)


async def _selected(
    queue: AsyncQueue | AsyncShardedQueue, fields: Mapping[str, Any], count: int | None
) -> list[PeekedMessage]:
    return comparison.selected(await deliveries_async.unsettled(queue), fields, count)


def _awaited(handler: Handler) -> Callable[[list[Message]], Awaitable[None]]:
    async def call(messages: list[Message]) -> None:
        await plain_value_async(handler(messages[0]))

    return call


def _run(handler: Handler, runner: asyncio.Runner) -> Callable[[list[Message]], None]:
    def call(messages: list[Message]) -> None:
        plain_value(handler(messages[0]), lambda result: runner.run(_finished(result)))

    return call


async def _finished(result: Awaitable[Any]) -> Any:
    return await result
