"""Virtual time, the processes that live in it, and their requests."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from ackq.core.effects import Arg, Clock, Effect, Request
from ackq.core.retries import pause_before_resend, unwrapped

from .faults import Faults
from .journal import Journal
from .server import Server

#: What a process does.
Life = Generator[Effect, Any, None]

#: µs since the epoch at which every history begins by the server's clock.
EPOCH = 1_700_000_000_000_000
#: Seconds of the longest delay that a fault causes: more than two leases.
LONGEST = 1.2
#: Seconds after which a process takes a silent connection for broken.
SILENCE = 0.2
#: Requests of a history that does not end.
ENDLESS = 10_000


#: BLPOP of several keys without waiting.
_POP_FIRST = b"""
for _, key in ipairs(KEYS) do
  local value = redis.call('LPOP', key)
  if value then
    return {key, value}
  end
end
"""


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
        self._blocked: list[_Blocked] = []
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

    def block(self, blocked: _Blocked, seconds: float) -> None:
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

    def _unblock(self, blocked: _Blocked, reply: Any) -> None:
        if any(each is blocked for each in self._blocked):
            self._blocked = [each for each in self._blocked if each is not blocked]
            blocked.answer(reply)


@dataclass(frozen=True, eq=False)
class _Blocked:
    """A process that waits in a blocking command."""

    process: Process
    command: tuple[Arg, ...]  #: the same without waiting
    answer: Callable[[Any], None]


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
        else:
            self.world.later(step.seconds, partial(self.resume, None))

    def die(self) -> None:
        """End with all threads. What they hold stays held."""
        for each in self.strands:
            each.is_alive = False
            each._life.close()


class Exchange:
    """One request of a process, sent until it is answered, as ackq's drivers do."""

    def __init__(self, process: Process, request: Request) -> None:
        self._process = process
        self._world = process.world
        self._request = request
        self._attempt = 0

    def send(self) -> None:
        """Send it, and let a fault strike."""
        if not self._process.is_alive:
            return
        world, command = self._world, self._request.command()
        kind, size, there, back = world.faults.next(self._process.name)
        if kind:
            world.journal.write(do="fault", kind=kind, begin=world.now / 1e6, end=world.now / 1e6)
        long = LONGEST * size
        reply: Callable[[Any], None] = partial(self._reply, back)
        match kind:
            case "death":
                self._die(size)
            case "death while waiting":
                world.later(there, partial(self._apply, command, reply))
                world.later(there * 2 * size, partial(self._die, size))
            case "unreachable":
                self._fail(there, sent=False)
            case "request lost":
                self._fail(SILENCE * size, sent=True)
            case "reply lost":
                world.later(there, partial(self._apply, command, _nobody))
                self._fail(there + back, sent=True)
            case "late request":
                world.later(there + long, partial(self._apply, command, _nobody))
                self._fail(SILENCE, sent=True)
            case "slow request":
                world.later(there + long, partial(self._apply, command, reply))
            case "slow reply":
                slow = partial(self._reply, back + long)
                world.later(there, partial(self._apply, command, slow))
            case "loading":
                error = redis.exceptions.BusyLoadingError("Redis is loading the dataset in memory")
                world.later(there, partial(reply, error))
            case "no memory":
                world.later(there, partial(self._apply, command, reply, is_full=True))
            case _:
                if kind == "scripts flushed":
                    world.flush_scripts()
                if kind == "clock set":
                    world.set_clock(LONGEST * (2 * size - 1))
                world.later(there, partial(self._apply, command, reply))

    def _die(self, luck: float) -> None:
        self._process.die()
        if luck < 0.5:  # else its machine has died too, and no connection is closed
            self._world.hang_up(self._process)

    def _fail(self, seconds: float, sent: bool) -> None:
        error = redis.ConnectionError("the connection was lost")
        self._world.later(seconds, partial(self._arrive, error, sent))

    def _apply(
        self, command: tuple[Arg, ...], reply: Callable[[Any], None], is_full: bool = False
    ) -> None:
        """Let the server do it, and reply."""
        world = self._world
        at_once, seconds = _without_waiting(command)
        found = world.call(at_once, is_full)
        if found is None and seconds:
            if self._process.is_alive:
                world.block(_Blocked(self._process, at_once, reply), seconds)
            return
        reply(found)
        world.serve_blocked()

    def _reply(self, back: float, reply: Any) -> None:
        self._world.later(back, partial(self._arrive, reply, sent=True))

    def _arrive(self, answer: Any, sent: bool) -> None:
        """Go on with a reply, or send the request again after an error."""
        if not self._process.is_alive:
            return
        if isinstance(answer, Exception):
            error = unwrapped(answer)
            try:
                pause = pause_before_resend(error, self._request, sent, self._attempt)
            except Exception as final:
                answer = final
            else:
                self._attempt += 1
                self._world.later(pause, self.send)
                return
        self._process.resume(answer)


def _nobody(reply: Any) -> None:
    """Let nobody read a reply."""


def _without_waiting(command: tuple[Arg, ...]) -> tuple[tuple[Arg, ...], float]:
    """Return a blocking command as one that does not wait, and the seconds that it waits."""
    match command:
        case (b"BLMOVE", *rest, seconds):
            return (b"LMOVE", *rest), float(seconds)
        case (b"BLPOP", *keys, seconds):
            return (b"EVAL", _POP_FIRST, len(keys), *keys), float(seconds)
        case (b"XREAD", b"COUNT", 1, b"BLOCK", milliseconds, *rest):
            return (b"XREAD", b"COUNT", 1, *rest), float(milliseconds) / 1000
    return command, 0.0
