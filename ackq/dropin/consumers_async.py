"""What each consumer of a client has in flight, by list and end of the list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import redis.asyncio

from ackq.config import PopFrom
from ackq.dropin import reports
from ackq.dropin.declared import Hold
from ackq.dropin.in_flight_async import InFlight
from ackq.dropin.owner_async import Caller, Owner
from ackq.dropin.queues_async import Queues
from ackq.dropin.renewal_async import LeaseRenewal
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message

ENDS: tuple[PopFrom, ...] = ("right", "left")
#: What one consumer has in flight, by list and end.
AllInFlight: TypeAlias = dict[tuple[str, PopFrom], InFlight]


class Consumers:
    """The messages that the consumers of one client have in flight."""

    def __init__(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
        settings: dict[str, Any],
        kept: Hold,
    ) -> None:
        self.client, self.settings, self.kept = client, settings, kept
        self.reports = reports.Reports()
        self._begin()

    def in_flight(
        self, name: str, end: PopFrom = "right", caller: Caller | None = None
    ) -> InFlight:
        """Return what a consumer has in flight of ``end`` of list ``name``.

        It is the consumer that ``caller`` pops for, by default the running one.

        Raises:
            Refused: ackq cannot use the name.
            RuntimeError: on asyncio: no task is running.
        """
        all_in_flight = self._all_of(caller)
        in_flight = all_in_flight.get((name, end))
        if in_flight is None:
            queue = self.queue(name, end)
            make_room(all_in_flight, name, self.reports)
            in_flight = all_in_flight[name, end] = InFlight(queue, self.kept)
        return in_flight

    def of_consumer(self, name: str) -> list[InFlight]:
        """Return what the running consumer has in flight of either end of list ``name``."""
        all_in_flight = self._all_of(None)
        return [all_in_flight[name, end] for end in ENDS if (name, end) in all_in_flight]

    def queue(self, name: str, end: PopFrom = "right") -> AsyncQueue:
        """Return the queue of list ``name``, popped from ``end``.

        Raises:
            Refused: ackq cannot use the name.
        """
        return self._queues.of(name, end)

    def watch(self, in_flight: InFlight, messages: list[Message], caller: Caller) -> None:
        """Hold messages that the calling consumer popped, and renew their leases.

        Args:
            in_flight: of this consumer.
            messages: what it popped.
            caller: of the drop-in's method.
        """
        in_flight.hold(messages, Owner(caller))
        self._renewal.watch(in_flight)

    def of_all(self, name: str) -> list[InFlight]:
        """Return what all consumers have in flight of list ``name``."""
        return [each for each in self.watched() if each.queue.name == name]

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Forget what all consumers have in flight of these lists, which are being deleted.

        Args:
            names: the lists. Defaults to None, all of them.
        """
        gone = None if names is None else set(names)
        for in_flight in self.watched():
            if gone is None or in_flight.queue.name in gone:
                in_flight.forget()

    def watched(self) -> list[InFlight]:
        """Return all whose leases are being renewed."""
        return self._renewal.all_in_flight()

    def _begin(self) -> None:
        """Have nothing in flight."""
        self._queues = Queues(self.client, self.settings)
        self._renewal = LeaseRenewal(self.settings["visibility_timeout"])

    def _all_of(self, caller: Caller | None) -> AllInFlight:
        """Return what the consumer that ``caller`` pops for, or the running one, has in flight."""
        raise NotImplementedError


def make_room(all_in_flight: AllInFlight, name: str, given: reports.Reports) -> None:
    """Remove idle entries of one consumer before list ``name`` is added, or warn of too many."""
    if len(all_in_flight) < reports.MANY_LISTS:
        return
    for place in [
        place
        for place, each in all_in_flight.items()
        if not each.messages and not each.done and not each.in_batch
    ]:
        del all_in_flight[place]
    if len(all_in_flight) >= reports.MANY_LISTS:
        given.warn(reports.MANY, name, count=reports.MANY_LISTS)
