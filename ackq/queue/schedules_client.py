# Written by tools/blocking.py: edit schedules_client_async.py instead, then run make clients.
"""`Queue.schedules`: the schedules that are stored for a queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ackq.config import Seconds, in_seconds
from ackq.queue import schedules
from ackq.queue.schedules import CatchUp, StoredSchedule
from ackq.queue.unique import Uniqueness
from ackq.queue.whole_queue import WholeQueue


class Schedules:
    """The schedules of a queue. They are stored in Redis, and can be changed at any time.

    Guarantee: while a worker takes from the queue, each tick of each schedule is pushed once,
    however many workers there are. They notice a change within 5 seconds. From the change on, no
    worker pushes anything for the former definition.
    """

    def __init__(self, queue: WholeQueue) -> None:
        self._queue = queue

    def put(
        self,
        name: str,
        message: Mapping[str, Any],
        *,
        every: Seconds | None = None,
        cron: str | None = None,
        zone: str = "UTC",
        catch_up: CatchUp = "none",
        unique: Uniqueness | None = None,
    ) -> bool:
        """Store a schedule, or replace the one of this name. Return whether there was one.

        Ticks are times of the server's clock. The first one is the next after this call. If the
        same definition is stored already, nothing changes, so a program may put its schedules
        whenever it starts: a missed tick is still caught up. A paused schedule stays paused, also
        with another definition; `resume` it.

        Args:
            name: of the schedule in its queue, up to 200 bytes.
            message: the JSON object to push at each tick. Without an ``id``, it gets
                ``<name>@<tick>``.
            every: seconds from tick to tick, counted from the epoch, from 0.001. Or give ``cron``.
            cron: five fields of cron, six if the first is for seconds, or ``@hourly``, ``@daily``,
                ``@midnight``, ``@weekly``, ``@monthly``, ``@yearly`` or ``@annually``. Or give
                ``every``.
            zone: the time zone of ``cron``, as in "Europe/Berlin". Defaults to UTC.
            catch_up: what to push when a worker starts and ticks were missed since no worker ran:
                "none", or the "last" one. Missed ticks are counted. Defaults to "none".
            unique: push nothing for a tick while a message of the same id is in the queue: "done",
                or "taken" to push again once it is taken; see `ackq.Queue.push`. Without an ``id``,
                the message then gets the name of the schedule. Defaults to None: push every tick.

        Raises:
            ConfigurationError: a setting is invalid, the definition is longer than 16 KiB, or the
                queue has 256 schedules already.
            MessageError: the message cannot be pushed, for instance because of its id.
        """
        seconds = None if every is None else in_seconds(every)
        settings = seconds, cron, zone, catch_up, unique
        return self._queue.execute(schedules.put, name, message, *settings) != "stored"

    def remove(self, name: str) -> bool:
        """Remove a schedule. Return whether there was one of this name."""
        return self._queue.execute(schedules.remove, name)

    def pause(self, name: str) -> bool:
        """Push nothing for a schedule until `resume`. Return whether there is one of this name."""
        return self._queue.execute(schedules.set_paused, name, True)

    def resume(self, name: str) -> bool:
        """Let a paused schedule tick again, from now on. Return whether there is one."""
        return self._queue.execute(schedules.set_paused, name, False)

    def list(self) -> list[StoredSchedule]:
        """Return the stored schedules by name. Cost: one round trip, up to 4 MiB."""
        return self._queue.execute(schedules.read)
