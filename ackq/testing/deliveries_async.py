"""Runs what is queued, in the test's own task, and reads what is not settled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ackq.core.inspection_results import PeekedMessage
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message
from ackq.sharded.client_async import AsyncShardedQueue
from ackq.testing.servers import check
from ackq.worker.batch import failures_of
from ackq.worker.policy import Backoff, settlement_of
from ackq.worker.slot import Lent, terms_of
from ackq.worker.verdicts import Verdict

#: How long a handler may take, in seconds, before its message could be delivered again.
LEASE = 3600.0
#: How many messages one call reads, or makes ready.
PAGE = 1000


async def drain(
    queues: Mapping[AsyncQueue | AsyncShardedQueue, int],
    call: Callable[[list[Message]], Awaitable[Any]],
    delayed: bool,
    limit: int,
) -> list[Message]:
    """Call ``call`` for every message, and return the messages; see `ackq.testing.drain`.

    Args:
        queues: each with the most messages to pass to one call.
        call: gets a list of messages.
        delayed: whether to handle delayed messages now.
        limit: how many messages at most.
    """
    handled: list[Message] = []
    for queue in queues:
        await queue.execute(check)
    parts = [(part, size) for queue, size in queues.items() for part in await parts_of(queue)]
    while True:
        before = len(handled)
        for part, size in parts:
            while messages := await part.pop_many(
                max(1, min(size, limit - len(handled))), visibility_timeout=LEASE
            ):
                if len(handled) == limit:
                    await part.release(*messages)
                    raise AssertionError(
                        f"{limit} messages were handled, and {part.name!r} still has some: does a"
                        " handler always retry, or push forever? Or pass a higher limit="
                    )
                await _handle(part, messages, call)
                handled += messages
        made_ready = 0
        for part, _ in parts if delayed else ():
            due = await part.peek(PAGE, "delayed")
            made_ready += await part.run_now(*(message.entry for message in due))
        if not made_ready and len(handled) == before:
            return handled


async def unsettled(queue: AsyncQueue | AsyncShardedQueue) -> list[PeekedMessage]:
    """Return the messages of a queue that are ready, delayed or in flight."""
    messages: list[PeekedMessage] = []
    await queue.execute(check)
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
    queue: AsyncQueue,
    messages: list[Message],
    call: Callable[[list[Message]], Awaitable[Any]],
) -> None:
    errors: dict[Message, BaseException] = {}
    try:
        await call([*map(Lent, messages)])
    except BaseException as raised:
        errors = {**failures_of(messages, raised)}
    await queue.ack(*(message for message in messages if message not in errors))
    for message, error in errors.items():
        if not issubclass(type(error), Verdict):
            await queue.release(message)
            continue
        settlement = settlement_of(error, message.receive_count, Backoff(), 0.0, terms_of(message))
        match settlement.verb:
            case "release":
                await queue.release(message, delay=float(settlement.argument))
            case "reject":
                await queue.reject(message, reason=str(settlement.argument))
            case _:
                await queue.nack(message, delay=float(settlement.argument))
    for error in errors.values():
        if not issubclass(type(error), Verdict):
            raise error


async def drain_tasks(tasks: Any, delayed: bool, limit: int) -> list[Message]:
    """Handle the messages of all queues of tasks, within their lifespan."""
    sizes = {
        tasks.queue(each.queue): 1 if each.batch is None else each.batch.size
        for each in tasks.definitions
    }
    batched = {each.queue for each in tasks.definitions if each.batch is not None}

    async def call(messages: list[Message]) -> None:
        if messages[0].queue in batched:
            await tasks.handle_batch(messages)
        else:
            await tasks.handle(messages[0])

    for queue in sizes:
        await queue.execute(check)  # before the lifespan does anything
    async with tasks.alive():
        return await drain(sizes, call, delayed, limit)
