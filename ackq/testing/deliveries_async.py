"""Runs what is queued, in the test's own task, and reads what is not settled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ackq.core.inspection_results import PeekedMessage
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message
from ackq.sharded.client_async import AsyncShardedQueue
from ackq.worker.policy import USUAL, Backoff, settlement_of
from ackq.worker.verdicts import Verdict

#: How long a handler may take, in seconds, before its message could be delivered again.
LEASE = 3600.0
#: How many messages one call reads, or makes ready.
PAGE = 1000


async def drain(
    queues: Iterable[AsyncQueue | AsyncShardedQueue],
    call: Callable[[Message], Awaitable[Any]],
    delayed: bool,
    limit: int,
) -> list[Message]:
    """Call ``call`` for every message, and return the messages; see `ackq.testing.drain`."""
    handled: list[Message] = []
    parts = [part for queue in queues for part in await parts_of(queue)]
    while True:
        before = len(handled)
        for part in parts:
            while (message := await part.pop(visibility_timeout=LEASE)) is not None:
                if len(handled) == limit:
                    await part.release(message)
                    raise AssertionError(
                        f"{limit} messages were handled, and {part.name!r} still has some: does a"
                        " handler always retry, or push forever? Or pass a higher limit="
                    )
                await _handle(part, message, call)
                handled.append(message)
        made_ready = 0
        for part in parts if delayed else ():
            due = await part.peek(PAGE, "delayed")
            made_ready += await part.run_now(*(message.entry for message in due))
        if not made_ready and len(handled) == before:
            return handled


async def unsettled(queue: AsyncQueue | AsyncShardedQueue) -> list[PeekedMessage]:
    """Return the messages of a queue that are ready, delayed or in flight."""
    messages: list[PeekedMessage] = []
    for part in await parts_of(queue):
        for state in ("ready", "delayed", "in_flight"):
            page, skip = await part.peek(PAGE, state), 0
            while page:
                messages += page
                skip += len(page)
                page = await part.peek(PAGE, state, skip=skip)
    return messages


async def parts_of(queue: AsyncQueue | AsyncShardedQueue) -> tuple[AsyncQueue, ...]:
    """Return the shards of a sharded queue, or the queue itself."""
    return await queue.shards() if isinstance(queue, AsyncShardedQueue) else (queue,)


async def _handle(
    queue: AsyncQueue, message: Message, call: Callable[[Message], Awaitable[Any]]
) -> None:
    try:
        await call(message)
    except Verdict as verdict:
        settlement = settlement_of(
            verdict, message.receive_count, Backoff(), 0.0, message.terms or USUAL
        )
        match settlement.verb:
            case "release":
                await queue.release(message, delay=float(settlement.argument))
            case "reject":
                await queue.reject(message, reason=str(settlement.argument))
            case _:
                await queue.nack(message, delay=float(settlement.argument))
    except BaseException:
        await queue.release(message)
        raise
    else:
        await queue.ack(message)


async def drain_tasks(tasks: Any, delayed: bool, limit: int) -> list[Message]:
    """Handle the messages of all queues of tasks, within their lifespan."""
    async with tasks.alive():
        queues = [tasks.queue(name) for name in tasks.queue_names]
        return await drain(queues, tasks.handle, delayed, limit)
