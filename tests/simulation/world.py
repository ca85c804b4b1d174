"""Virtual time, the processes that live in it, and their requests."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any

from ackq.core.effects import Arg, Clock, Effect, Pipeline, Request

from .exchange import Blocked, Exchange, Trip
from .faults import Faults
from .journal import Journal
from .server import Server

#: What a process does.
#: What a process does.
Life = Generator[Effect, Any, None] | Coroutine[Any, Any, None]

#: µs since the epoch at which every history begins by the server's clock.
EPOCH = 1_700_000_000_000_000
#: Requests of a history that does not end.
ENDLESS = 4_000


class Endless(Exception):
    """A history took too many requests."""


class World:
    """One history: a server, processes and faults."""

    def __init__(
        self,
        server: Server,
        faults: Faults,
        before_each: Callable[[int], object] | None = None,
    ) -> None:
        self.server = server
        self.faults = faults
        self.journal = Journal(lambda: self.now / 1_000_000)
        #: µs of a monotonic clock, which all processes share.
        self.now = 0
        #: µs by which the server's clock was set forward.
        self._ahead = 0
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._blocked: list[Blocked] = []
        self._requests = 0
        self._before_each = before_each

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do it after that many seconds, and at least 1 µs."""
        at = self.now + max(1, round(seconds * 1_000_000))
        heapq.heappush(self._agenda, (at, next(self._order), action))

    def run(self, seconds: float | None = None) -> None:
        """Let time pass, or let it pass until nothing is left to happen."""
        until = None if seconds is None else self.now + round(seconds * 1_000_000)
        while self._agenda and (until is None or self._agenda[0][0] <= until):
            self.now, _, action = heapq.heappop(self._agenda)
            action()
        self.now = max(self.now, until or 0)

    def call(self, command: tuple[Arg, ...], is_full: bool = False) -> Any:
        """Let the server apply a command now."""
        self._requests += 1
        if self._requests > ENDLESS:
            raise Endless(f"over {ENDLESS} requests")
        if self._before_each is not None:
            self._before_each(self._requests)
        at = EPOCH + self.now + self._ahead
        call = self.server.call_when_full if is_full else self.server.call
        return call(command, at)

    def flush_scripts(self) -> None:
        self.server.flush_scripts(EPOCH + self.now + self._ahead)

    def set_clock(self, seconds: float) -> None:
        """Set the server's clock forward, or back."""
        self._ahead += round(seconds * 1_000_000)
        now = self.now / 1_000_000
        self.journal.write(do="fault", kind="clock", begin=now, end=now, clock=True)

    # --- blocking commands ------------------------------------------------------------

    def block(self, blocked: Blocked, seconds: float) -> None:
        """Answer when there is something to reply, or with None after a while."""
        self._blocked.append(blocked)
        self.later(seconds, partial(self._unblock, blocked, None))

    def serve_blocked(self) -> None:
        """Serve those who wait for what the last request may have pushed, first come first."""
        in_vain = set()
        for each in list(self._blocked):
            if each.command not in in_vain:
                reply = self.call(each.command)
                if reply is None:
                    in_vain.add(each.command)
                else:
                    self._unblock(each, reply)

    def hang_up(self, process: Process) -> None:
        """Let the server know that a process is dead, so that it gives its waits nothing."""
        self._blocked = [each for each in self._blocked if each.process not in process.strands]

    def _unblock(self, blocked: Blocked, reply: Any) -> None:
        if any(each is blocked for each in self._blocked):
            self._blocked = [each for each in self._blocked if each is not blocked]
            blocked.answer(reply)


class Process:
    """One simulated process. It lives until its life ends, or a fault ends it."""

    def __init__(self, world: World, name: str, life: Life, beside: Life | None = None) -> None:
        """Begin.

        Args:
            world: where it lives.
            name: its name, by which it meets its faults.
            life: what it does.
            beside: what another thread of it does meanwhile. Defaults to None, nothing.
        """
        self.world = world
        self.name = name
        self.is_alive = True
        self._life = life
        #: This one, and the other threads of the same process.
        self.strands = [self]
        if beside is not None:
            self.strands.append(Process(world, f"{name}/beside", beside))
            self.strands[1].strands = self.strands
        world.later(0, partial(self.resume, None))

    def resume(self, answer: Any) -> None:
        """Go on to the next request or sleep."""
        if not self.is_alive:
            return
        try:
            failed = isinstance(answer, Exception)
            step = self._life.throw(answer) if failed else self._life.send(answer)
            while isinstance(step, Clock):
                step = self._life.send(self.world.now / 1_000_000)
        except StopIteration:
            self.die()
            return
        if isinstance(step, Request):
            Exchange(self, step).send()
        elif isinstance(step, Pipeline):
            Trip(self, step).send()
        else:
            self.world.later(step.seconds, partial(self.resume, None))

    def die(self) -> None:
        """End with all threads. What they hold stays held."""
        for each in self.strands:
            each.is_alive = False
            each._life.close()
