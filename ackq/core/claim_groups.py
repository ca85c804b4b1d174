"""Groups of claims: their epoch, which fences their drivers, and the numbers of their batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ackq import scripts
from ackq.config import Seconds, check_integer, microseconds
from ackq.core.call import Spec, call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.names import check_group
from ackq.errors import ConfigurationError, Fenced

#: Longest lease of a claim, and longest time to keep an acked claim, in seconds: ten years.
MAX_LEASE = 315_360_000.0
#: The highest integer that is exact in Redis, Lua and Python.
MAX_INTEGER = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Claim:
    """One batch of a group: its number, and how many messages it contains."""

    batch: int
    rows: int


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim as the queue sees it.

    ``lease_ends_in`` is in seconds, negative if the lease ended that long ago: then the next
    consumer gets the messages. It is None while they are being returned: ``rows`` counts the
    messages that are still to be returned.
    """

    group: str
    batch: int
    rows: int
    lease_ends_in: float | None


@dataclass
class ClaimGroup(ABC):
    """One group as its driver sees it. ``epoch`` is 0 before `begin` and after a release.
    ``claiming`` is the batch of a claim that was begun and not yet returned to the caller."""

    name: str
    timeout: float
    epoch: int = 0
    claiming: int = 0

    def __post_init__(self) -> None:
        """Check the name and the timeout."""
        check_group(self.name)
        if microseconds(self.timeout, "timeout", MAX_LEASE) < 1_000_000:
            raise ConfigurationError(f"timeout of claims is 1 second or more, not {self.timeout!r}")

    @property
    def lease(self) -> int:
        """The timeout in microseconds."""
        return microseconds(self.timeout, "timeout", MAX_LEASE)

    @property
    @abstractmethod
    def target(self) -> Spec:
        """The queue that is claimed from."""

    @property
    @abstractmethod
    def key(self) -> bytes:
        """The key of the group's record."""

    @property
    @abstractmethod
    def who(self) -> str:
        """The queue and the group, for errors."""

    def require_begun(self) -> None:
        """Raise `ConfigurationError` if this process did not take the group over."""
        if not self.epoch:
            raise ConfigurationError(f"{self.who}: call begin() first to take over the group")

    def fenced(self, epoch: int) -> Fenced:
        """Return the error for a group whose epoch is now ``epoch``."""
        return Fenced(
            f"{self.who}: another process took it over (its epoch is {epoch}, this one's"
            f" {self.epoch}), so nothing was changed. Give each query a group of its own, or stop"
            " this one",
            group=self.name,
        )


class Operations(Protocol):
    """The operations on the claims of one kind of queue: a module."""

    def begin(self, group: Any, /) -> Operation[int]: ...
    def open_claims(self, group: Any, /) -> Operation[list[Claim]]: ...
    def claim(
        self, group: Any, after: int, messages: int, size: int | None, batch: int | None, /
    ) -> Operation[Claim | None]: ...
    def ack(self, group: Any, up_to: int, keep: Seconds, /) -> Operation[int]: ...
    def forget(self, group: Any, up_to: int, /) -> Operation[None]: ...
    def beat(self, group: Any, /) -> Operation[None]: ...
    def readable(self, group: Any, first: int, last: int, /) -> Operation[list[Claim]]: ...
    def release(self, group: Any, /) -> Operation[int]: ...


def begin(group: ClaimGroup) -> Operation[int]:
    """Raise the epoch; see `ackq.queue.Claims.begin`."""
    epoch, _, _ = yield from change(group, "claims/begin", (1, group.key))
    group.epoch, group.claiming = epoch, 0
    return group.epoch


def check_epoch(group: ClaimGroup) -> Operation[None]:
    """Raise `Fenced` if a driver that has begun was replaced. Call it after other reads: a new
    driver raises the epoch before it changes anything."""
    if group.epoch:
        (epoch,) = yield from facts(group, b"epoch")
        if epoch != group.epoch:
            raise group.fenced(epoch)


def numbers(group: ClaimGroup) -> Operation[tuple[int, int]]:
    """Return the highest claimed and the highest acked number; see `ackq.queue.Claims.numbers`."""
    claimed, acked = yield from facts(group, b"last", b"acked")
    return claimed, acked


def now(group: ClaimGroup) -> Operation[int]:
    """Return the server's time in µs; see `ackq.queue.Claims.now`."""
    seconds, microseconds = yield from call(group.target, Request((b"TIME",), resend=True))
    return int(seconds) * 1_000_000 + int(microseconds)


def check_claim(
    group: ClaimGroup, after: int, messages: int, size: int | None, batch: int | None
) -> None:
    """Check the arguments of a claim; see `ackq.queue.Claims.claim`."""
    group.require_begun()
    check_integer(after, "after", 0, MAX_INTEGER - 1)
    check_integer(messages, "messages", 1, MAX_INTEGER)
    if size is not None:
        check_integer(size, "size", 1, MAX_INTEGER)
    if batch is not None:
        check_integer(batch, "batch", after + 1, MAX_INTEGER)


def check_ack(group: ClaimGroup, up_to: int, keep: Seconds = 0) -> int:
    """Check the arguments of an ack, and return ``keep`` in microseconds."""
    group.require_begun()
    check_integer(up_to, "up_to", 0, MAX_INTEGER)
    return microseconds(keep, "keep", MAX_LEASE, zero=True)


def following(group: ClaimGroup, after: int) -> Operation[int]:
    """Return the number of the next claim: the unfinished one of this process, if any."""
    if group.claiming > after:
        return group.claiming
    return max(after, *(yield from facts(group, b"last", b"acked"))) + 1


def after_taken(group: ClaimGroup, batch: int | None, used: int) -> int:
    """Return the number to try after the script replied that ``used`` is the highest in use.

    Raises:
        ConfigurationError: the caller chose the number, ``batch``.
    """
    if batch is not None:
        raise ConfigurationError(
            f"group {group.name!r}: batch {batch} was used before, and others up to {used} may"
            " have been used, too; take a higher number"
        )
    return used + 1


def facts(group: ClaimGroup, *fields: bytes) -> Operation[list[int]]:
    """Return numbers of the group's record, 0 for those that it lacks."""
    request = Request((b"HMGET", group.key, *fields), resend=True)
    values = yield from call(group.target, request)
    return [int(value or 0) for value in values]


def change(group: ClaimGroup, script: str, passed: Sequence[Arg], *args: Arg) -> Operation[Any]:
    """Call a script that checks the epoch. All of these may be sent again.

    Args:
        group: the group.
        script: its name.
        passed: the number of its keys, and the keys.
        args: its arguments.

    Raises:
        Fenced: another process took over the group; nothing was changed.
    """
    request = Request((*passed, *args), script=scripts.load(script), resend=True)
    reply = yield from call(group.target, request)
    if reply[0] == b"fenced":
        raise group.fenced(reply[1])
    return reply
