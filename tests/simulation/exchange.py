"""What happens to the requests of a process, and to their replies, on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import redis

from ackq.core.effects import Arg, Pipeline, Request
from ackq.core.retries import pause_before_resend, unwrapped

if TYPE_CHECKING:
    from .world import Process

#: Seconds of the longest delay that a fault causes: more than two leases.
LONGEST = 1.2
#: Seconds after which a process takes a silent connection for broken.
SILENCE = 0.2
#: BLPOP of several keys without waiting.
_POP_FIRST = b"""
for _, key in ipairs(KEYS) do
  local value = redis.call('LPOP', key)
  if value then
    return {key, value}
  end
end
"""


@dataclass(frozen=True, eq=False)
class Blocked:
    """A process that waits in a blocking command."""

    process: Process
    command: tuple[Arg, ...]  #: the same without waiting
    answer: Callable[[Any], None]


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
        error = _lost()
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
                world.block(Blocked(self._process, at_once, reply), seconds)
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


class Trip:
    """Requests of a process that are sent at once, as ackq's drivers do.

    The server applies them one after the other, and others may come between two of them. A fault
    strikes at any of them. The rest may still be applied.
    """

    def __init__(self, process: Process, pipeline: Pipeline) -> None:
        self._process = process
        self._world = process.world
        self._requests = pipeline.requests
        self._strikes = [self._world.faults.next(process.name) for _ in self._requests]
        self._answers: list[Any] = []
        #: How many the server has dealt with.
        self._applied = 0
        #: Whether the process still reads.
        self._is_read = True
        #: Seconds by which the process reads late.
        self._late = 0.0

    def send(self) -> None:
        """Send them."""
        if not self._process.is_alive:
            return
        first = self._strikes[0]
        if first.kind == "unreachable":
            self._note("unreachable")
            self._world.later(first.there, partial(self._process.resume, _lost()))
        else:
            self._world.later(first.there, self._strike)

    def _strike(self) -> None:
        """Let a fault strike at the next request, and let the server apply it."""
        at = self._applied
        kind, size, there, _ = self._strikes[at]
        world, long = self._world, LONGEST * size
        if kind and self._is_read and not (kind == "unreachable" and at):
            self._note(kind)
            match kind:
                case "death":
                    self._die(size)
                case "death while waiting":
                    world.later(there * 2 * size, partial(self._die, size))
                case "request lost":
                    self._break(SILENCE * size)
                    return
                case "reply lost" | "loading":
                    self._break(there)
                case "late request":
                    self._break(SILENCE)
                    world.later(long, self._apply)
                    return
                case "slow request":
                    world.later(long, self._apply)
                    return
                case "slow reply":
                    self._late = long
                case "scripts flushed":
                    world.flush_scripts()
                case "clock set":
                    world.set_clock(LONGEST * (2 * size - 1))
            if kind == "loading":
                self._go_on(None)
                return
        self._apply(is_full=kind == "no memory")

    def _apply(self, is_full: bool = False) -> None:
        world, at = self._world, self._applied
        at_once, seconds = _without_waiting(self._requests[at].command())
        found = world.call(at_once, is_full)
        if found is None and seconds:
            is_closed = not self._is_read and self._strikes[at].size < 0.5
            if self._process.is_alive and not is_closed:
                world.block(Blocked(self._process, at_once, self._go_on), seconds)
            return
        self._go_on(found)
        world.serve_blocked()

    def _go_on(self, reply: Any) -> None:
        """Note a reply, and deal with the next request."""
        if self._is_read:
            self._answers.append(unwrapped(reply) if isinstance(reply, Exception) else reply)
        self._applied += 1
        if self._applied < len(self._requests):
            self._world.later(0, self._strike)
        elif self._is_read:
            self._world.later(self._strikes[0].back + self._late, self._arrive)

    def _break(self, seconds: float) -> None:
        """Let the process get no more replies, and notice it after a while."""
        self._is_read = False
        self._answers += [_lost()] * (len(self._requests) - len(self._answers))
        self._world.later(seconds, self._arrive)

    def _arrive(self) -> None:
        if self._process.is_alive:
            self._process.resume(self._answers)

    def _die(self, luck: float) -> None:
        self._is_read = False
        self._process.die()
        if luck < 0.5:  # else its machine has died too, and no connection is closed
            self._world.hang_up(self._process)

    def _note(self, kind: str) -> None:
        now = self._world.now / 1e6
        self._world.journal.write(do="fault", kind=kind, begin=now, end=now)


def _lost() -> Exception:
    return redis.ConnectionError("the connection was lost")


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
