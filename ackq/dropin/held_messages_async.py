"""What an asyncio client has in flight: for each task and list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import redis.asyncio

from ackq.config import PopFrom
from ackq.dropin.declared import Hold
from ackq.dropin.in_flight_async import ENDS, AllInFlight, InFlight, make_room
from ackq.dropin.owner_async import Caller, Owner
from ackq.dropin.queues_async import Queues
from ackq.dropin.renewal_async import LeaseRenewal
from ackq.dropin.reports import Reports
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message


class Held:
    """The messages that the tasks of one event loop have in flight."""

    def __init__(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
        settings: dict[str, Any],
        kept: Hold,
    ) -> None:
        self.client, self.settings, self.kept = client, settings, kept
        self.reports = Reports()
        self._all_in_flight: WeakKeyDictionary[asyncio.Task[Any], AllInFlight] = WeakKeyDictionary()
        self._queues = Queues(client, settings)
        self._renewal = LeaseRenewal(settings["visibility_timeout"])

    def in_flight(
        self, name: str, end: PopFrom = "right", caller: Caller | None = None
    ) -> InFlight:
        """Return what a task has in flight of ``end`` of list ``name``.

        The task is that of ``caller``, by default the running one.

        Raises:
            Refused: ackq cannot use the name.
            RuntimeError: no task is running.
        """
        task = caller.consumer() if caller else asyncio.current_task()
        if task is None:
            raise RuntimeError("ackq.dropin.asyncio works in tasks: start one, as asyncio.run does")
        all_in_flight = self._all_in_flight.get(task)
        if all_in_flight is None:
            all_in_flight = self._all_in_flight[task] = {}
            task.add_done_callback(self._ended)
        in_flight = all_in_flight.get((name, end))
        if in_flight is None:
            queue = self._queues.of(name, end)
            make_room(all_in_flight, name, self.reports)
            in_flight = all_in_flight[name, end] = InFlight(queue, self.kept)
        return in_flight

    def of_consumer(self, name: str) -> list[InFlight]:
        """Return what the running task has in flight of either end of list ``name``."""
        task = asyncio.current_task()
        all_in_flight = self._all_in_flight.get(task, {}) if task else {}
        return [all_in_flight[name, end] for end in ENDS if (name, end) in all_in_flight]

    def queue(self, name: str, end: PopFrom = "right") -> AsyncQueue:
        """Return the queue of list ``name``, popped from ``end``.

        Raises:
            Refused: ackq cannot use the name.
        """
        return self._queues.of(name, end)

    def watch(self, in_flight: InFlight, messages: list[Message], caller: Caller) -> None:
        """Hold messages that the calling task popped, and renew their leases.

        Args:
            in_flight: of this task.
            messages: what it popped.
            caller: of the drop-in's method.
        """
        in_flight.hold(messages, Owner(caller))
        self._renewal.watch(in_flight)

    def of_all(self, name: str) -> list[InFlight]:
        """Return what all tasks have in flight of list ``name``."""
        return [
            in_flight for in_flight in self._renewal.all_in_flight() if in_flight.queue.name == name
        ]

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Forget what all tasks have in flight of these lists, which are being deleted.

        Args:
            names: the lists. Defaults to None, all of them.
        """
        gone = None if names is None else set(names)
        for in_flight in self._renewal.all_in_flight():
            if gone is None or in_flight.queue.name in gone:
                in_flight.forget()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._all_in_flight.pop(task, None)
        self._renewal.wake()

    async def aclose(self, clean: bool) -> None:
        """Settle or return the messages of this task and of ended tasks.

        Args:
            clean: whether this task's work on its messages is done.
        """
        for in_flight in self._renewal.all_in_flight():
            await in_flight.close(clean)
        await self._renewal.stop()
        await self._queues.aclose()
