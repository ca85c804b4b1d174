"""A group in virtual time: the server is a model, the consumers are ackq's."""

import heapq
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ackq.core.effects import Request
from ackq.membership.operations import GroupSpec
from benchmarks.fleet.world import Consumer, World

#: A round trip of the network, in seconds.
ROUND_TRIP = 0.0005
#: Seconds that the scripts give a member to compute the assignment.
ASSIGNING = 0.05


class Costs(NamedTuple):
    """Seconds of the server's CPU for a request.

    Attributes:
        known: a heartbeat of a member that knows the assignment.
        changed: one that gets its partitions.
        unassigned: one that gets all members.
        alone: the same in a group of one.
        assign: an assignment of all partitions.
        members: of the group in which these were measured.
    """

    known: float
    changed: float
    unassigned: float
    alone: float
    assign: float
    members: int

    def to_assign(self, members: int) -> float:
        """Return what ``unassigned`` costs with another number of members."""
        return self.alone + (self.unassigned - self.alone) * members / self.members


class Group:
    """A model of the scripts in ``lua/members``."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._ends: dict[bytes, float] = {}
        self._ending: list[tuple[float, bytes]] = []
        self._owners: dict[bytes, list[int]] = {}
        self._generation = self._assigned = 0
        self._assigning = 0.0

    def answer(self, request: Request, now: float) -> tuple[list[Any] | int, float]:
        """Return the reply, and what it cost."""
        assert request.script is not None
        if request.script.name == "members/assign":
            return self._assign(*request.args[4:]), self._costs.assign
        name, session_us, _, joins, known = request.args[4:]
        assert isinstance(name, bytes)
        return self._heartbeat(name, float(session_us) / 1e6, joins == 1, known, now)

    def _assign(self, generation: Any, *pairs: Any) -> int:
        if generation != self._generation or generation == self._assigned:
            return 0
        self._owners = {}
        for share, owner in zip(pairs[::2], pairs[1::2], strict=True):
            self._owners.setdefault(owner, []).append(share)
        self._assigned = generation
        self._assigning = 0.0
        return 1

    def _heartbeat(
        self, name: bytes, session: float, joins: bool, known: Any, now: float
    ) -> tuple[list[Any], float]:
        if name not in self._ends and not joins:
            return [b"fenced"], self._costs.known
        changed = name not in self._ends
        self._ends[name] = now + session
        heapq.heappush(self._ending, (now + session, name))
        while self._ending_next()[0] <= now:
            del self._ends[self._ending_next()[1]]
            changed = True
        self._generation += changed
        wait = self._next_of_others(name, now)
        reply = [b"ok", self._generation, self._assigned, wait]
        if self._assigned != self._generation and now < self._assigning:
            return reply, self._costs.known
        if self._assigned != self._generation:
            self._assigning = now + ASSIGNING
            owners = [
                part
                for owner, shares in self._owners.items()
                for share in shares
                for part in (b"%d" % share, owner)
            ]
            cost = self._costs.to_assign(len(self._ends))
            return [*reply, list(self._ends), owners], cost
        if known == self._generation:
            return reply, self._costs.known
        mine = [b"%d" % share for share in self._owners.get(name, ())]
        return [*reply, len(self._ends), mine], self._costs.changed

    def _ending_next(self) -> tuple[float, bytes]:
        """Return the session that ends next, and when."""
        while self._ends.get(self._ending[0][1]) != self._ending[0][0]:
            heapq.heappop(self._ending)
        return self._ending[0]

    def _next_of_others(self, name: bytes, now: float) -> int:
        """Return in how many µs the next session but ``name`` ends; -1 if there is none."""
        first = self._ending_next()
        if first[1] != name:
            return round((first[0] - now) * 1e6)
        if len(self._ends) == 1:
            return -1
        while (second := self._ending_next())[1] == name:
            heapq.heappop(self._ending)
        heapq.heappush(self._ending, first)
        return round((second[0] - now) * 1e6)


class Virtual(World):
    """Events in the order of their times. The server does one request after the other."""

    def __init__(self, spec: GroupSpec, consumers: int, seed: int, costs: Costs) -> None:
        super().__init__(spec, consumers, seed)
        self._group = Group(costs)
        self._time = self._spent = self._free = 0.0
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def now(self) -> float:
        return self._time

    def cpu(self) -> float:
        return self._spent

    def start(self, consumer: Consumer, after: float) -> None:
        self._at(self._time + after, lambda: self._go_on(consumer, None))

    def kill(self, consumer: Consumer) -> None:
        consumer.alive = False

    def step(self, until: float) -> None:
        if not self._events or self._events[0][0] > until:
            self._time = until
            return
        self._time, _, event = heapq.heappop(self._events)
        event()

    def _at(self, when: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), event))

    def _go_on(self, consumer: Consumer, reply: Any) -> None:
        if not consumer.alive:
            return
        began = time.process_time()
        request = consumer.go_on(reply)
        ready = self._time + time.process_time() - began
        if request is None:
            pause = consumer.session.next_heartbeat
            self._at(ready + pause, lambda: self._go_on(consumer, None))
            return
        sent = request
        self._at(ready + ROUND_TRIP / 2, lambda: self._arrive(consumer, sent))

    def _arrive(self, consumer: Consumer, request: Request) -> None:
        reply, cost = self._group.answer(request, self._time)
        self._free = max(self._free, self._time) + cost
        self._spent += cost
        self._at(self._free + ROUND_TRIP / 2, lambda: self._go_on(consumer, reply))
