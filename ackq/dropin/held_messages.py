"""What a blocking client has in flight: by thread or task, and at the end of a program."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import redis

from ackq.config import PopFrom
from ackq.dropin.declared import Hold
from ackq.dropin.in_flight import ENDS, AllInFlight, InFlight, make_room
from ackq.dropin.owner import Caller, Owner, Task, running_task
from ackq.dropin.queues import Queues
from ackq.dropin.renewal import LeaseRenewal
from ackq.dropin.reports import Reports
from ackq.queue.client import Queue
from ackq.queue.messages import Message


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.all_in_flight: AllInFlight = {}


class Held:
    """The messages that the threads and tasks of this process have in flight.

    A forked child has none.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        settings: dict[str, Any],
        kept: Hold,
    ) -> None:
        self.client, self.settings, self.kept = client, settings, kept
        self.reports = Reports()
        self._at_exit_too = False
        self._reset()

    def in_flight(
        self, name: str, end: PopFrom = "right", caller: Caller | None = None
    ) -> InFlight:
        """Return what a thread or task has in flight of ``end`` of list ``name``.

        It is that of ``caller``, by default the running one.

        Raises:
            Refused: ackq cannot use the name.
        """
        all_in_flight = self._of(caller.task if caller else running_task())
        in_flight = all_in_flight.get((name, end))
        if in_flight is None:
            queue = self._queues.of(name, end)
            make_room(all_in_flight, name, self.reports)
            in_flight = all_in_flight[name, end] = InFlight(queue, self.kept)
        return in_flight

    def of_consumer(self, name: str) -> list[InFlight]:
        """Return what the running thread or task has in flight of either end of list ``name``."""
        all_in_flight = self._of(running_task())
        return [all_in_flight[name, end] for end in ENDS if (name, end) in all_in_flight]

    def queue(self, name: str, end: PopFrom = "right") -> Queue:
        """Return the queue of list ``name``, popped from ``end``.

        Raises:
            Refused: ackq cannot use the name.
        """
        return self._queues.of(name, end)

    def watch(self, in_flight: InFlight, messages: list[Message], caller: Caller) -> None:
        """Hold messages that the calling thread or task popped, and renew their leases.

        Args:
            in_flight: of this thread or task.
            messages: what it popped.
            caller: of the drop-in's method.
        """
        if not self._at_exit_too:
            atexit.register(self._at_exit)
            self._at_exit_too = True
        in_flight.hold(messages, Owner(caller))
        self._renewal.watch(in_flight)

    def of_all(self, name: str) -> list[InFlight]:
        """Return what all threads and tasks have in flight of list ``name``."""
        if self._pid != os.getpid():
            return []
        return [
            in_flight for in_flight in self._renewal.all_in_flight() if in_flight.queue.name == name
        ]

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Forget what all threads and tasks have in flight of these lists, which are being deleted.

        Args:
            names: the lists. Defaults to None, all of them.
        """
        if self._pid != os.getpid():
            return  # a forked child has nothing in flight, and its copy of a lock may stay locked
        gone = None if names is None else set(names)
        for in_flight in self._renewal.all_in_flight():
            if gone is None or in_flight.queue.name in gone:
                in_flight.forget()

    def close(self, clean: bool) -> None:
        """Settle or return the messages of this thread or task, and of ended ones.

        Args:
            clean: whether the work of this thread or task on its messages is done.
        """
        if self._pid == os.getpid():
            for in_flight in self._renewal.all_in_flight():
                in_flight.close(clean)
            self._queues.close()
        atexit.unregister(self._at_exit)
        self._at_exit_too = False

    def _at_exit(self) -> None:
        if self._pid == os.getpid():
            for in_flight in self._renewal.all_in_flight():
                in_flight.close_at_exit()

    def _of(self, task: Task | None) -> AllInFlight:
        if self._pid != os.getpid():
            self._reset()
        if task is None:
            return self._of_thread.all_in_flight
        return self._of_tasks.setdefault(task, {})

    def _reset(self) -> None:
        """Start with nothing in flight: at first, and in a forked child."""
        self._pid = os.getpid()
        self._of_thread = _OfThread()
        self._of_tasks: WeakKeyDictionary[Task, AllInFlight] = WeakKeyDictionary()
        self._queues = Queues(self.client, self.settings)
        self._renewal = LeaseRenewal(self.settings["visibility_timeout"])
