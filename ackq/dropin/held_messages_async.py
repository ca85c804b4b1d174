"""What an asyncio client has in flight: for each task and list."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from ackq.dropin.consumers_async import AllInFlight, Consumers
from ackq.dropin.owner_async import Caller


class Held(Consumers):
    """The messages that the tasks of one event loop have in flight."""

    def _begin(self) -> None:
        super()._begin()
        self._of_tasks: WeakKeyDictionary[asyncio.Task[Any], AllInFlight] = WeakKeyDictionary()

    def _all_of(self, caller: Caller | None) -> AllInFlight:
        task = caller.consumer() if caller else asyncio.current_task()
        if task is None:
            raise RuntimeError("ackq.dropin.asyncio works in tasks: start one, as asyncio.run does")
        all_in_flight = self._of_tasks.get(task)
        if all_in_flight is None:
            all_in_flight = self._of_tasks[task] = {}
            task.add_done_callback(self._ended)
        return all_in_flight

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._of_tasks.pop(task, None)
        self._renewal.wake()

    async def aclose(self, clean: bool) -> None:
        """Settle or return the messages of this task and of ended tasks.

        Args:
            clean: whether this task's work on its messages is done.
        """
        for in_flight in self.watched():
            await in_flight.close(clean)
        await self._renewal.stop()
        await self._queues.aclose()
