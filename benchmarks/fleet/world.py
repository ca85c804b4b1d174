"""A group of consumers that start, work and die, in virtual or in real time."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from ackq.core.effects import Operation, Request
from ackq.membership.operations import Assignment, GroupSpec, Session, heartbeat

GROUP = "{ackq-benchmark:fleet}"
#: Longest time, in seconds, until a group agrees.
LIMIT = 300.0
#: Seconds for which a settled group is watched.
WATCHED = 5.0


class Course(NamedTuple):
    """What happened to one group.

    Attributes:
        settled: seconds from the last start until all know the last assignment.
        starting: the server's CPU while they start, in percent of one core.
        steady: the same while the group does not change.
        recovered: seconds from the death of a tenth until the others agree.
    """

    settled: float
    starting: float
    steady: float
    recovered: float


class Consumer:
    """One consumer, with the operation that is under way."""

    def __init__(self, spec: GroupSpec, name: str) -> None:
        self._spec = spec
        self.session = Session(name)
        self.alive = True
        self._operation: Operation[Assignment] | None = None

    def go_on(self, reply: object = None) -> Request | None:
        """Return the next request; None if the heartbeat is over."""
        try:
            if self._operation is None:
                self._operation = heartbeat(self._spec, self.session)
                found = next(self._operation)
            else:
                found = self._operation.send(reply)
        except StopIteration:
            self._operation = None
            return None
        assert isinstance(found, Request)
        return found


class World(ABC):
    """The time, the network and the server of one group."""

    def __init__(self, spec: GroupSpec, consumers: int, seed: int) -> None:
        self.spec = spec
        self.draw = random.Random(seed)
        self.consumers = [Consumer(spec, f"{number:08d}") for number in range(consumers)]

    def course(self, starting: float) -> Course:
        """Let all start within ``starting`` seconds; kill a tenth later; return what happened."""
        began, cpu = self.now(), self.cpu()
        for number, each in enumerate(self.consumers):
            self.start(each, starting * number / len(self.consumers))
        self.run(until=began + starting)
        last = self.now()
        self._agree()
        settled, busy = self.now() - last, self._busy(began, cpu)
        began, cpu = self.now(), self.cpu()
        self.run(until=began + WATCHED)
        steady = self._busy(began, cpu)
        began = self.now()
        for each in self.draw.sample(self.consumers, max(1, len(self.consumers) // 10)):
            self.kill(each)
        # Nobody knows before their sessions end.
        first = self._generation()
        self._wait(lambda: self._generation() > first)
        self._agree()
        return Course(settled, busy, steady, self.now() - began)

    @abstractmethod
    def now(self) -> float:
        """Return the time in seconds."""

    @abstractmethod
    def cpu(self) -> float:
        """Return the server's CPU time in seconds."""

    @abstractmethod
    def start(self, consumer: Consumer, after: float) -> None:
        """Let a consumer join after some seconds."""

    @abstractmethod
    def kill(self, consumer: Consumer) -> None:
        """Let a consumer fall silent."""

    @abstractmethod
    def step(self, until: float) -> None:
        """Let something happen, or the time pass, until ``until`` at most."""

    def run(self, until: float) -> None:
        """Let the time pass."""
        while self.now() < until:
            self.step(until)

    def _busy(self, since: float, cpu: float) -> float:
        return 100 * (self.cpu() - cpu) / (self.now() - since)

    def _generation(self) -> int:
        return max(
            (
                consumer.session.assignment.generation
                for consumer in self.consumers
                if consumer.alive and consumer.session.assignment
            ),
            default=0,
        )

    def _agree(self) -> None:
        self._wait(self._agreed)

    def _agreed(self) -> bool:
        """Return whether the living know one assignment, in which each partition has an owner."""
        known = [consumer.session.assignment for consumer in self.consumers if consumer.alive]
        if len({each and each.generation for each in known}) != 1:
            return False
        return sum(len(each.partitions) for each in known if each) == self.spec.partitions

    def _wait(self, done: Callable[[], bool]) -> None:
        until = self.now() + LIMIT
        while not done():
            if self.now() >= until:
                raise TimeoutError(f"{len(self.consumers)} consumers did not agree in {LIMIT:g} s")
            self.run(until=self.now() + 0.05)
