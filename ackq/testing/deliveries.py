# Written by tools/blocking.py: edit deliveries_async.py instead, then run make clients.
"""Runs what is queued, in the test's own thread, and reads what is not settled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ackq.core.inspection_results import PeekedMessage
from ackq.queue.client import Queue
from ackq.queue.messages import Message
from ackq.sharded.client import ShardedQueue
from ackq.worker.policy import USUAL, Backoff, settlement_of
from ackq.worker.verdicts import Verdict

#: How long a handler may take, in seconds, before its message could be delivered again.
LEASE = 3600.0
#: How many messages one call reads, or makes ready.
PAGE = 1000


def drain(
    queues: Iterable[Queue | ShardedQueue],
    call: Callable[[Message], Any],
    delayed: bool,
    limit: int,
) -> list[Message]:
    """Call ``call`` for every message, and return the messages; see `ackq.testing.drain`."""
    handled: list[Message] = []
    parts = [part for queue in queues for part in parts_of(queue)]
    while True:
        before = len(handled)
        for part in parts:
            while (message := part.pop(visibility_timeout=LEASE)) is not None:
                if len(handled) == limit:
                    part.release(message)
                    raise AssertionError(
                        f"{limit} messages were handled, and {part.name!r} still has some: does a"
                        " handler always retry, or push forever? Or pass a higher limit="
                    )
                _handle(part, message, call)
                handled.append(message)
        made_ready = 0
        for part in parts if delayed else ():
            due = part.peek(PAGE, "delayed")
            made_ready += part.run_now(*(message.entry for message in due))
        if not made_ready and len(handled) == before:
            return handled


def unsettled(queue: Queue | ShardedQueue) -> list[PeekedMessage]:
    """Return the messages of a queue that are ready, delayed or in flight."""
    messages: list[PeekedMessage] = []
    for part in parts_of(queue):
        for state in ("ready", "delayed", "in_flight"):
            page, skip = part.peek(PAGE, state), 0
            while page:
                messages += page
                skip += len(page)
                page = part.peek(PAGE, state, skip=skip)
    return messages


def parts_of(queue: Queue | ShardedQueue) -> tuple[Queue, ...]:
    """Return the shards of a sharded queue, or the queue itself."""
    return queue.shards() if isinstance(queue, ShardedQueue) else (queue,)


def _handle(queue: Queue, message: Message, call: Callable[[Message], Any]) -> None:
    try:
        call(message)
    except Verdict as verdict:
        settlement = settlement_of(
            verdict, message.receive_count, Backoff(), 0.0, message.terms or USUAL
        )
        match settlement.verb:
            case "release":
                queue.release(message, delay=float(settlement.argument))
            case "reject":
                queue.reject(message, reason=str(settlement.argument))
            case _:
                queue.nack(message, delay=float(settlement.argument))
    except BaseException:
        queue.release(message)
        raise
    else:
        queue.ack(message)


def drain_tasks(tasks: Any, delayed: bool, limit: int) -> list[Message]:
    """Handle the messages of all queues of tasks, within their lifespan."""
    with tasks.alive():
        queues = [tasks.queue(name) for name in tasks.queue_names]
        return drain(queues, tasks.handle, delayed, limit)
