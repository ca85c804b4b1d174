"""Claims on a delay queue: batches of ready messages, leased where they are, fenced by an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ackq import scripts
from ackq.config import Seconds, check_integer
from ackq.core.call import Keys, call
from ackq.core.claim_groups import (
    MAX_INTEGER,
    MAX_LEASE,
    Claim,
    ClaimGroup,
    HeldClaim,
    after_taken,
    change,
    check_ack,
    check_claim,
    check_epoch,
    facts,
    following,
)
from ackq.core.claim_groups import begin as take_over
from ackq.core.effects import Arg, Operation, Request
from ackq.core.outside import Outside
from ackq.delay.messages import KINDS, DelayKeys, DelaySpec, decode_key

__all__ = [
    "ClaimedMessage",
    "Group",
    "ack",
    "beat",
    "begin",
    "claim",
    "forget",
    "held",
    "open_claims",
    "read",
    "readable",
    "release",
    "release_all",
]

#: Most names that one call passes.
CHUNK = 1000
#: Most messages that one call reads.
PAGE = 300


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """A message of a claim.

    ``ready_time`` is when it became ready, in seconds since the epoch.
    """

    key: str
    body: bytes
    ready_time: float


class Group(ClaimGroup):
    """A group on a delay queue, or on one partition of it."""

    def __init__(
        self, name: str, keys: DelayKeys, group: str, outside: Outside, timeout: float = MAX_LEASE
    ) -> None:
        super().__init__(group, timeout)
        self.outside = outside
        self.queue = name
        self.keys = keys

    @property
    def target(self) -> Keys:
        """The queue's keys."""
        types = dict(zip(self.keys.all(), KINDS, strict=True))
        types |= {self.keys.claims: "zset", self.key: "hash"}
        return Keys(f"delay queue {self.queue!r}", types)

    @property
    def key(self) -> bytes:
        """The key of the group's record."""
        return self.keys.claims + f":{self.name}".encode()

    @property
    def who(self) -> str:
        """The queue and the group, for errors."""
        return f"delay queue {self.queue!r}, group {self.name!r}"

    def claim_key(self, batch: int) -> bytes:
        """Return the key of a claim."""
        return self.keys.claim + f"{self.name}:{batch}".encode()

    def passed(self, batch: int) -> tuple[Arg, ...]:
        """Return the number of keys of every script for claims, and the keys."""
        keys = (*self.keys.all(), self.keys.claims, self.key, self.claim_key(batch))
        return (len(keys), *keys)


def begin(group: Group) -> Operation[int]:
    """Raise the epoch, and finish what an interrupted release left; see `DelayClaims.begin`."""
    epoch = yield from take_over(group)
    for batch, ends in (yield from _registered(group)):
        if not ends:
            yield from _return(group, batch)
    return epoch


def open_claims(group: Group) -> Operation[list[Claim]]:
    """List the open claims; see `DelayClaims.open`."""
    claims = yield from _open(group)
    yield from check_epoch(group)
    return claims


def claim(
    group: Group, after: int, messages: int, size: int | None, batch: int | None
) -> Operation[Claim | None]:
    """Claim the next batch; see `DelayClaims.claim`."""
    check_claim(group, after, messages, size, batch)
    number = batch or (yield from following(group, after))
    while True:
        group.claiming = number
        reply = yield from step(group, number, messages, size)
        if reply[0] == b"taken":
            number = after_taken(group, batch, reply[1])
        elif reply[0] == b"empty":
            group.claiming = 0
            return None if batch is None else Claim(number, 0)
        elif not reply[2]:
            group.claiming = 0
            return Claim(number, reply[1])


def step(group: Group, batch: int, messages: int, size: int | None) -> Operation[Any]:
    """Claim some messages, and return the reply."""
    args = (group.epoch, batch, messages, size or 0, group.lease, group.outside.jitter())
    return (yield from change(group, "delay/claim", group.passed(batch), *args))


def ack(group: Group, up_to: int, keep: Seconds) -> Operation[int]:
    """Delete the messages of claims; see `DelayClaims.ack`."""
    check_ack(group, up_to, keep)
    batches = [batch for batch, _ in (yield from _registered(group)) if batch <= up_to]
    rows = 0
    # Even if no claim is open, one call records ``up_to`` as acked.
    for batch in batches or [up_to]:
        left = 1
        while left:
            _, deleted, left = yield from change(
                group, "delay/claim_ack", group.passed(batch), group.epoch, batch, up_to
            )
            rows += deleted
    return rows


def forget(group: Group, up_to: int) -> Operation[None]:
    """Do nothing: an ack keeps no messages."""
    check_ack(group, up_to)
    yield from ()


def beat(group: Group) -> Operation[None]:
    """Renew leases; see `DelayClaims.beat`."""
    group.require_begun()
    batches = [batch for batch, ends in (yield from _registered(group)) if ends]
    # One call at least, which checks the epoch.
    for batch in batches or [0]:
        more = 1
        while more:
            _, _, more = yield from change(
                group, "delay/claim_beat", group.passed(batch), group.epoch, batch, group.lease
            )


def readable(group: Group, first: int, last: int) -> Operation[list[Claim]]:
    """List the readable claims; see `DelayClaims.readable`."""
    check_integer(first, "first", 0, MAX_INTEGER)
    check_integer(last, "last", 0, MAX_INTEGER)
    return [listed for listed in (yield from _open(group)) if first <= listed.batch <= last]


def read(
    group: Group, batch: int, start: int, count: int
) -> Operation[list[ClaimedMessage | None]]:
    """Read messages of a claim; see `DelayClaims.read`."""
    check_integer(batch, "batch", 1, MAX_INTEGER)
    check_integer(start, "start", 0, MAX_INTEGER)
    check_integer(count, "count", 0, MAX_INTEGER)
    if not count:
        return []
    request = Request(
        (*group.passed(batch), batch, start, min(count, PAGE)),
        script=scripts.load("delay/claim_read"),
        resend=True,
    )
    looked, *values = yield from call(group.target, request)
    # The claim is shorter or gone: all that was asked for is missing.
    messages: list[ClaimedMessage | None] = [None] * (looked or count)
    for place, ready, key, body in zip(*(values[at::4] for at in range(4)), strict=True):
        messages[place - start] = ClaimedMessage(decode_key(key), body, float(ready))
    return messages


def release(group: Group) -> Operation[int]:
    """Return all claims to the queue; see `DelayClaims.release`."""
    passed: tuple[Arg, ...] = (2, group.keys.claims, group.key)
    # Fence first: after that, no claims are added.
    yield from change(group, "claims/release", passed, group.epoch)
    batches = [batch for batch, _ in (yield from _registered(group))]
    names = [group.claim_key(batch) for batch in batches]
    for first in range(0, len(names), CHUNK):
        chunk = names[first : first + CHUNK]
        yield from change(group, "claims/release", passed, group.epoch, *chunk)
    rows = 0
    for batch in batches:
        rows += yield from _return(group, batch)
    # Only now, so that a repeat after an error still uses this driver's epoch.
    group.epoch = group.claiming = 0
    return rows


def held(spec: DelaySpec) -> Operation[list[HeldClaim]]:
    """List the claims of all groups; see `ackq.delay.DelayQueue.claims`."""
    totals: dict[tuple[str, int], tuple[int, float | None]] = {}
    seconds, micros = yield from call(spec, Request((b"TIME",), resend=True))
    now = int(seconds) * 1_000_000 + int(micros)
    for keys in spec.partitions:
        for group, batch, ends in (yield from _registry(spec, keys)):
            rows = yield from call(spec, Request((b"LLEN", _name(keys, group, batch)), resend=True))
            left = (ends - now) / 1_000_000 if ends else None
            before, soonest = totals.get((group, batch), (0, left))
            if soonest is None:  # another partition is returning its part
                left = None
            elif left is not None:
                left = min(left, soonest)
            totals[group, batch] = (before + rows, left)
    return [HeldClaim(*claim, rows, ends) for claim, (rows, ends) in sorted(totals.items()) if rows]


def release_all(spec: DelaySpec, group: str) -> Operation[int]:
    """Release a group's claims on all partitions; see `ackq.delay.DelayQueue.release_claims`."""
    rows = 0
    for keys in spec.partitions:
        rows += yield from release(Group(spec.name, keys, group, spec.outside))
    return rows


def _return(group: Group, batch: int) -> Operation[int]:
    request = Request(
        (*group.passed(batch), batch),
        script=scripts.load("delay/claim_return"),
        resend=True,  # a second application returns the next messages
    )
    rows, left = 0, 1
    while left:
        returned, left = yield from call(group.target, request)
        rows += returned
    return rows


def _open(group: Group) -> Operation[list[Claim]]:
    """Return the group's claims that are neither acked nor being returned, oldest first."""
    (acked,) = yield from facts(group, b"acked")
    claims = []
    for batch, ends in (yield from _registered(group)):
        if ends and batch > acked:
            request = Request((b"LLEN", group.claim_key(batch)), resend=True)
            rows = yield from call(group.target, request)
            if rows:
                claims.append(Claim(batch, rows))
    return claims


def _registered(group: Group) -> Operation[list[tuple[int, int]]]:
    """Return the group's batches, and when their leases end, in µs; 0: being returned."""
    registry = yield from _registry(group.target, group.keys)
    return sorted((batch, ends) for name, batch, ends in registry if name == group.name)


def _registry(target: Any, keys: DelayKeys) -> Operation[list[tuple[str, int, int]]]:
    """Return the groups and batches of all claims, and when their leases end."""
    request = Request((b"ZRANGE", keys.claims, b"0", b"-1", b"WITHSCORES"), resend=True)
    reply = yield from call(target, request)
    # Pairs in RESP3, one after the other in RESP2.
    pairs = reply if reply and isinstance(reply[0], list) else zip(*[iter(reply)] * 2, strict=True)
    claims = []
    for name, ends in pairs:
        group, _, batch = name.removeprefix(keys.claim).rpartition(b":")
        if name.startswith(keys.claim) and group and batch.isdigit():
            claims.append((group.decode(errors="replace"), int(batch), int(float(ends))))
    return claims


def _name(keys: DelayKeys, group: str, batch: int) -> bytes:
    return keys.claim + f"{group}:{batch}".encode()
