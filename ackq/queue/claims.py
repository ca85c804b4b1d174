"""Claims: batches of messages, each one list under one lease, fenced by an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from ackq.config import Seconds, check_integer
from ackq.core.call import call
from ackq.core.claim_groups import (
    MAX_INTEGER,
    MAX_LEASE,
    Claim,
    ClaimGroup,
    after_taken,
    begin,
    change,
    check_ack,
    check_claim,
    check_epoch,
    following,
)
from ackq.core.effects import Arg, Operation, Request
from ackq.errors import ClaimLost
from ackq.queue import held_lists, record
from ackq.queue.spec import QueueSpec

__all__ = [
    "Group",
    "ack",
    "beat",
    "begin",
    "claim",
    "end_holds",
    "forget",
    "open_claims",
    "read",
    "readable",
    "release",
]

#: Most names that one call passes.
CHUNK = 1000


class Group(ClaimGroup):
    """A group on a list queue."""

    def __init__(self, spec: QueueSpec, name: str, timeout: float, epoch: int = 0) -> None:
        super().__init__(name, timeout, epoch)
        self.spec = spec
        #: Acked claims that this driver has kept readable.
        self.kept: set[int] = set()

    @property
    def target(self) -> QueueSpec:
        """The queue."""
        return self.spec

    @property
    def key(self) -> bytes:
        """The key of the group's record."""
        return self.spec.keys.claims(self.name)

    def passed(self, script: str, batch: int | None = None) -> tuple[Arg, ...]:
        """Return the number of keys of a script and the keys; see `QueueKeys.passed`."""
        keys = self.spec.keys
        claim = () if batch is None else (keys.claim(self.name, batch),)
        return keys.passed(script, self.key, *claim)

    @property
    def who(self) -> str:
        """The queue and the group, for errors."""
        return f"queue {self.spec.name!r}, group {self.name!r}"


def open_claims(group: Group) -> Operation[list[Claim]]:
    """List the open claims; see `ackq.queue.Claims.open`."""
    claims = [Claim(batch, held.rows) for batch, held in (yield from _open(group))]
    yield from check_epoch(group)
    return claims


def claim(
    group: Group, after: int, messages: int, size: int | None, batch: int | None
) -> Operation[Claim | None]:
    """Claim the next batch; see `ackq.queue.Claims.claim`."""
    check_claim(group, after, messages, size, batch)
    number = batch or (yield from following(group, after))
    while True:
        group.claiming = number
        reply = yield from _step(group, number, messages, size)
        status = reply[0]
        if status == b"held":
            yield from held_lists.return_to_queue(group.spec, reply[1])
        elif status == b"empty":
            group.claiming = 0
            return None if batch is None else Claim(number, 0)
        elif status == b"taken":
            number = after_taken(group, batch, reply[1])
        elif not reply[2]:
            group.claiming = 0
            return Claim(number, reply[1])


def ack(group: Group, up_to: int, keep: Seconds) -> Operation[int]:
    """Ack claims; see `ackq.queue.Claims.ack`."""
    milliseconds = -(-check_ack(group, up_to, keep) // 1000)
    batches = [batch for batch, _ in (yield from _open(group)) if batch <= up_to]
    if milliseconds:
        group.kept.update(batches)
    rows = 0
    # Even if no claim is open, one call records ``up_to`` as acked.
    for batch in batches or [up_to]:
        passed = group.passed("claims/ack", batch)
        reply = yield from change(group, "claims/ack", passed, group.epoch, up_to, milliseconds)
        rows += reply[1]
    return rows


def forget(group: Group, up_to: int) -> Operation[None]:
    """Delete kept claims; see `ackq.queue.Claims.forget`."""
    check_ack(group, up_to)
    for batch in sorted(each for each in group.kept if each <= up_to):
        passed = group.passed("claims/forget", batch)
        yield from change(group, "claims/forget", passed, group.epoch, batch)
        group.kept.discard(batch)


def beat(group: Group) -> Operation[None]:
    """Renew leases; see `ackq.queue.Claims.beat`."""
    group.require_begun()
    names = [held.name for _, held in reversed((yield from _open(group)))]
    for first in range(0, max(1, len(names)), CHUNK):
        chunk = names[first : first + CHUNK]
        passed = group.passed("claims/beat")
        yield from change(group, "claims/beat", passed, group.epoch, group.lease, *chunk)


def readable(group: Group, first: int, last: int) -> Operation[list[Claim]]:
    """List the readable claims; see `ackq.queue.Claims.readable`."""
    check_integer(first, "first", 0, MAX_INTEGER)
    check_integer(last, "last", 0, MAX_INTEGER)
    known = {held.name: held for held in (yield from held_lists.lists(group.spec))[1]}
    claims = []
    for batch in range(max(1, first), last + 1):
        name = group.spec.keys.claim(group.name, batch)
        if name in known:
            rows = known[name].rows if known[name].score else 0
        else:
            rows = yield from call(group.spec, Request((b"LLEN", name), resend=True))
        if rows:
            claims.append(Claim(batch, rows))
    return claims


def read(group: Group, batch: int, start: int, count: int) -> Operation[list[bytes]]:
    """Read messages of a claim; see `ackq.queue.Claims.read`."""
    check_integer(batch, "batch", 1, MAX_INTEGER)
    check_integer(start, "start", 0, MAX_INTEGER)
    check_integer(count, "count", 0, MAX_INTEGER)
    if not count:
        return []
    keys = group.spec.keys
    name, is_left = keys.claim(group.name, batch), keys.pop_from == "left"
    first = start if is_left else -(start + count)
    request = Request((b"LRANGE", name, first, first + count - 1), resend=True)
    bodies: list[bytes] = yield from call(group.spec, request)
    if len(bodies) != count:
        raise ClaimLost(
            f"{group.who}: batch {batch} has no messages {start} to {start + count - 1} (any"
            " more): its lease ended, it was released, or it was acked and deleted",
            group=group.name,
            batch=batch,
        )
    return bodies if is_left else bodies[::-1]


def release(group: Group) -> Operation[int]:
    """Return all open claims to the queue; see `ackq.queue.Claims.release`."""
    passed = group.passed("claims/release")
    # Fence first: after that, no claims are added to the list.
    yield from change(group, "claims/release", passed, group.epoch)
    _, listed = yield from held_lists.lists(group.spec)
    # Newest first: each goes in front of the one returned before it.
    own = sorted(
        (
            (named[1], held.name)
            for held in listed
            if (named := held_lists.claim_of(group.spec, held.name)) and named[0] == group.name
        ),
        reverse=True,
    )
    names = [name for _, name in own]
    for first in range(0, len(names), CHUNK):
        yield from change(
            group, "claims/release", passed, group.epoch, *names[first : first + CHUNK]
        )
    rows = 0
    for name in names:
        rows += yield from held_lists.return_to_queue(group.spec, name)
    # Only now, so that a repeat after an error still uses this driver's epoch.
    group.epoch = group.claiming = 0
    return rows


def end_holds(spec: QueueSpec) -> Operation[int]:
    """Return the claims of all groups, and finish unfinished moves; return how many messages."""
    rows = 0
    _, listed = yield from held_lists.lists(spec)
    groups = {named[0] for held in listed if (named := held_lists.claim_of(spec, held.name))}
    for name in sorted(groups):
        rows += yield from release(Group(spec, name, MAX_LEASE))
    for held in listed:
        if not held_lists.claim_of(spec, held.name):
            rows += yield from held_lists.return_to_queue(spec, held.name)
    return rows


def _open(group: Group) -> Operation[list[tuple[int, held_lists.Held]]]:
    """Return the group's claims that are not being returned to the queue, oldest first."""
    _, listed = yield from held_lists.lists(group.spec)
    own = []
    for held in listed:
        named = held_lists.claim_of(group.spec, held.name)
        if held.score and named and named[0] == group.name:
            own.append((named[1], held))
    return sorted(own, key=lambda pair: pair[0])


def _step(group: Group, batch: int, messages: int, size: int | None) -> Operation[Sequence[Any]]:
    passed = group.passed("claims/claim", batch)
    args = (group.epoch, batch, messages, size or 0, group.lease, group.spec.keys.pop_from)
    try:
        reply: Sequence[Any] = yield from change(group, "claims/claim", passed, *args)
    except ResponseError as error:
        if not record.is_refused(error):
            raise
        yield from record.record(group.spec)
        reply = yield from change(group, "claims/claim", passed, *args)
    return reply
