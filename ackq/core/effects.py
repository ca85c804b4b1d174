"""The effects that an operation may request from its driver."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

import hiredis

from ackq.config import Confirm
from ackq.scripts import Script

Arg = bytes | str | int | float

#: Return a command in the Redis protocol. redis-py packs in Python on asyncio; hiredis does the
#: same in C, so both clients use it. Its type stub describes a tuple of one element.
pack = cast(Callable[[tuple[Arg, ...]], bytes], hiredis.pack_command)


@dataclass(slots=True)
class Request:
    """One command, or one script call, to the server that holds the queue.

    The driver answers with the reply. With ``confirm``, it answers with a pair: the reply, and
    the reply or error of the WAIT or WAITAOF that follows on the same connection.

    Attributes:
        args: the command, or the arguments after a script's SHA.
        script: the script to call, if it is a call.
        resend: whether to send it again after a lost reply. Set only if applying it twice does no
            harm.
        confirm: the replicas or disks to wait for.
        constant: how many of a script's first arguments are the same in every call for the queue.
        blocks: seconds for which the server may wait before it replies.
        by_text: send the script's text, not its SHA, because the server does not know it.
        reply_lost: whether an earlier reply was lost, or a script ended halfway, so it may already
            have been applied.
    """

    args: tuple[Arg, ...]
    script: Script | None = None
    resend: bool = False
    confirm: Confirm | None = None
    constant: int = 0
    blocks: float = 0.0
    by_text: bool = False
    reply_lost: bool = False

    def command(self) -> tuple[Arg, ...]:
        """Return the command as it is sent."""
        if self.script is None:
            return self.args
        if self.by_text:
            return (b"EVAL", self.script.text, *self.args)
        return (b"EVALSHA", self.script.sha, *self.args)

    def packed(self) -> bytes:
        """Return the command in the Redis protocol; its constant arguments are packed once."""
        command = self.command()
        if not self.constant or self.by_text:
            return pack(command)
        end = len(command) - len(self.args) + self.constant
        start, rest = _packed_start(command[:end]), _without_count(command[end:])
        return b"*%d\r\n%b%b" % (len(command), start, rest)


@lru_cache(maxsize=1024)
def _packed_start(args: tuple[Arg, ...]) -> bytes:
    return _without_count(args)


def _without_count(args: tuple[Arg, ...]) -> bytes:
    """Return packed arguments without the count that begins a command."""
    packed = pack(args)
    return packed[packed.index(b"\n") + 1 :]


def wait_command(confirm: Confirm) -> tuple[Arg, ...]:
    """Return the command that waits for replicas or disks."""
    milliseconds = max(1, round(confirm.seconds * 1000))
    if confirm.fsync:
        return (b"WAITAOF", 1, confirm.replicas, milliseconds)
    return (b"WAIT", confirm.replicas, milliseconds)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Requests that are sent at once, over one connection, to the server that holds the queue.

    Answered with a list of one answer for each: the reply, the error that the server replied with,
    or the error for which no reply came. In the last case it may have been applied. Nothing is sent
    again. If the server is not reached, the error is raised instead, and nothing was applied.

    Attributes:
        requests: without ``confirm``.
    """

    requests: tuple[Request, ...]

    @property
    def blocks(self) -> float:
        """Seconds for which the server may wait before its last reply."""
        return sum(each.blocks for each in self.requests)


@dataclass(frozen=True, slots=True)
class Sleep:
    """Let ``seconds`` pass. Answered with None."""

    seconds: float


@dataclass(frozen=True, slots=True, init=False)
class Clock:
    """Read a monotonic clock. Answered with seconds."""


Effect = Request | Pipeline | Sleep | Clock
T = TypeVar("T")
Operation = Generator[Effect, Any, T]
