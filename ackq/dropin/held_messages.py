"""What a blocking client has in flight: by thread or task, and at the end of a program."""

from __future__ import annotations

import atexit
import os
import threading
from weakref import WeakKeyDictionary

from ackq.dropin.consumers import AllInFlight, Consumers
from ackq.dropin.in_flight import InFlight
from ackq.dropin.owner import Caller, Task, running_task
from ackq.queue.messages import Message


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.all_in_flight: AllInFlight = {}


class Held(Consumers):
    """The messages that the threads and tasks of this process have in flight.

    A forked child has none.
    """

    _at_exit_too = False

    def watch(self, in_flight: InFlight, messages: list[Message], caller: Caller) -> None:
        """Hold messages as `Consumers.watch` does, also at the end of the program."""
        if not self._at_exit_too:
            atexit.register(self._at_exit)
            self._at_exit_too = True
        super().watch(in_flight, messages, caller)

    def watched(self) -> list[InFlight]:
        """Return all whose leases are being renewed."""
        # In a forked child none are, and its copy of a lock may stay locked.
        return super().watched() if self._pid == os.getpid() else []

    def close(self, clean: bool) -> None:
        """Settle or return the messages of this thread or task, and of ended ones.

        Args:
            clean: whether the work of this thread or task on its messages is done.
        """
        for in_flight in self.watched():
            in_flight.close(clean)
        if self._pid == os.getpid():
            self._queues.close()
        atexit.unregister(self._at_exit)
        self._at_exit_too = False

    def _at_exit(self) -> None:
        for in_flight in self.watched():
            in_flight.close_at_exit()

    def _begin(self) -> None:
        super()._begin()
        self._pid = os.getpid()
        self._of_thread = _OfThread()
        self._of_tasks: WeakKeyDictionary[Task, AllInFlight] = WeakKeyDictionary()

    def _all_of(self, caller: Caller | None) -> AllInFlight:
        if self._pid != os.getpid():
            self._begin()
        task = caller.task if caller else running_task()
        if task is None:
            return self._of_thread.all_in_flight
        return self._of_tasks.setdefault(task, {})
