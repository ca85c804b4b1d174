"""Renew the leases of messages in flight, in a background task."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from ackq.dropin.in_flight_async import InFlight

log = logging.getLogger("ackq.dropin")

#: Longest time, in seconds, between two checks of whether a lease is to be renewed.
MAX_TICK = 1.0


class LeaseRenewal:
    """A task that renews the leases of all messages in flight, and settles for ended tasks.

    It ends when nothing is in flight, and starts again when needed. When the event loop ends, as
    at the end of `asyncio.run`, the task is cancelled. It then settles for tasks that are done.
    """

    def __init__(self, visibility_timeout: float) -> None:
        self._tick = min(MAX_TICK, visibility_timeout / 6)
        self._all_in_flight: set[InFlight] = set()
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    def watch(self, in_flight: InFlight) -> None:
        """Renew the leases in ``in_flight`` for as long as it holds messages."""
        self._all_in_flight.add(in_flight)
        if self._task is None or self._task.done():
            self._ended = asyncio.Event()
            self._task = asyncio.create_task(self._run(), name="ackq-renew")

    def wake(self) -> None:
        """Settle at once what a task that has just ended has in flight."""
        self._ended.set()

    def all_in_flight(self) -> list[InFlight]:
        """Return the `InFlight` objects whose leases are being renewed."""
        return list(self._all_in_flight)

    async def stop(self) -> None:
        """End the task, unless other tasks still have messages in flight."""
        if (
            not any(in_flight.messages for in_flight in self._all_in_flight)
            and self._task is not None
        ):
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        try:
            while self._all_in_flight:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._tick):
                        await self._ended.wait()
                self._ended.clear()
                idle = [
                    in_flight for in_flight in self.all_in_flight() if not await _tend(in_flight)
                ]
                self._all_in_flight -= {in_flight for in_flight in idle if not in_flight.messages}
        except asyncio.CancelledError:
            for in_flight in self.all_in_flight():
                if in_flight.owner is not None and in_flight.owner.ended():
                    await _tend(in_flight)
            raise


async def _tend(in_flight: InFlight) -> bool:
    try:
        return await in_flight.tend()
    except UserWarning as warning:
        # The user turned warnings into errors. One must not end the renewals of other messages.
        log.warning("%s", warning)
        return True
