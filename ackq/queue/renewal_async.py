"""Renews the lease of an `AsyncQueue.lease` block while the block runs, in a task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ackq.errors import EXPECTED, LeaseLost, redact
from ackq.queue.messages import Message

log = logging.getLogger("ackq.queue")

Extend = Callable[[Message, float], Awaitable[object]]


class AsyncRenewer:
    """Renews leases in tasks, each after a third of its timeout."""

    def __init__(self, extend: Extend) -> None:
        self._extend = extend

    @asynccontextmanager
    async def renewing(self, message: Message, timeout: float) -> AsyncIterator[None]:
        """Renew a message's lease for ``timeout`` seconds at a time while the block runs.

        The first renewal is after a third of the timeout, so a shorter block costs no request.
        """
        ended = asyncio.Event()
        renewal = _renew(self._extend, message, timeout, ended)
        task = asyncio.create_task(renewal, name="ackq-lease")
        try:
            yield
        finally:
            ended.set()
            await task  # wait for a renewal in progress before the message is settled


async def _renew(extend: Extend, message: Message, timeout: float, ended: asyncio.Event) -> None:
    pause = timeout / 3
    while not await _ends_within(ended, pause):
        pause = timeout / 3
        try:
            await extend(message, timeout)
        except LeaseLost:
            return
        except EXPECTED as error:
            log.warning(
                "a lease of %r could not be renewed and will be retried: %s",
                message,
                redact(str(error)),
            )
            pause = timeout / 12


async def _ends_within(ended: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await ended.wait()
    except TimeoutError:
        return False
