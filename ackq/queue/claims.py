"""Claims: batches of messages, each one list under one lease, fenced by an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.config import check_integer, microseconds
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.names import check_group
from ackq.errors import ClaimLost, ConfigurationError, Fenced
from ackq.queue import handed_over, pop_from
from ackq.queue.messages import Claim
from ackq.queue.spec import QueueSpec

#: Longest lease of a claim, and longest time to keep an acked claim, in seconds: ten years.
LONGEST = 315_360_000.0
#: The highest integer that is exact in Redis, Lua and Python.
LARGEST_INTEGER = 2**53 - 1
#: Most names that one call passes.
CHUNK = 1000
#: Most acked claims that one `forget` looks for; older ones expire by themselves.
FORGOTTEN = 1000


@dataclass
class Group:
    """One group as its driver sees it. ``epoch`` is 0 before `begin` and after `release`.
    ``claiming`` is the batch of a claim that was begun and not yet returned to the caller."""

    spec: QueueSpec
    name: str
    timeout: float
    epoch: int = 0
    claiming: int = 0

    def __post_init__(self) -> None:
        """Check the name and the timeout."""
        check_group(self.name)
        if microseconds(self.timeout, "timeout", LONGEST) < 1_000_000:
            raise ConfigurationError(f"timeout of claims is 1 second or more, not {self.timeout!r}")

    @property
    def lease(self) -> int:
        """The timeout in microseconds."""
        return microseconds(self.timeout, "timeout", LONGEST)

    @property
    def key(self) -> bytes:
        """The key of the group's record."""
        return self.spec.keys.claims(self.name)


def begin(group: Group) -> Operation[int]:
    """Raise the epoch; see `ackq.queue.Claims.begin`."""
    epoch, _, _ = yield from _call(group, "begin", (group.key,))
    group.epoch, group.claiming = epoch, 0
    return group.epoch


def open_claims(group: Group) -> Operation[list[Claim]]:
    """List the open claims; see `ackq.queue.Claims.open`."""
    found = [Claim(batch, each.rows) for batch, each in (yield from _open(group))]
    if group.epoch:
        # Check the epoch last: another driver raises it before it claims.
        (epoch,) = yield from _facts(group, b"epoch")
        if epoch != group.epoch:
            raise _fenced(group, epoch)
    return found


def last(group: Group) -> Operation[int]:
    """Return the highest number in use; see `ackq.queue.Claims.last`."""
    return max((yield from _facts(group, b"last", b"acked")))


def claim(
    group: Group, after: int, messages: int, size: int | None, batch: int | None
) -> Operation[Claim | None]:
    """Claim the next batch; see `ackq.queue.Claims.claim`."""
    _require_begun(group)
    check_integer(after, "after", 0, LARGEST_INTEGER - 1)
    check_integer(messages, "messages", 1, LARGEST_INTEGER)
    if size is not None:
        check_integer(size, "size", 1, LARGEST_INTEGER)
    if batch is not None:
        check_integer(batch, "batch", after + 1, LARGEST_INTEGER)
    number = batch or (yield from _next(group, after))
    while True:
        group.claiming = number
        reply = yield from _step(group, number, messages, size)
        status = reply[0]
        if status == b"held":
            yield from handed_over.return_to_queue(group.spec, reply[1])
        elif status == b"empty":
            group.claiming = 0
            return None if batch is None else Claim(number, 0)
        elif status == b"taken":
            if batch is not None:
                raise ConfigurationError(
                    f"group {group.name!r}: batch {batch} was used before, and so may all up to"
                    f" {reply[1]}; take a higher number"
                )
            number = reply[1] + 1
        elif not reply[2]:
            group.claiming = 0
            return Claim(number, reply[1])


def ack(group: Group, up_to: int, keep: float) -> Operation[int]:
    """Ack claims; see `ackq.queue.Claims.ack`."""
    _require_begun(group)
    check_integer(up_to, "up_to", 0, LARGEST_INTEGER)
    milliseconds = 0 if keep == 0 else max(1, microseconds(keep, "keep", LONGEST) // 1000)
    keys = group.spec.keys
    batches = [batch for batch, _ in (yield from _open(group)) if batch <= up_to]
    rows = 0
    # Even if no claim is open, one call records ``up_to`` as acked.
    for batch in batches or [up_to]:
        called = (keys.held, keys.heldrows, keys.counters, group.key, keys.claim(group.name, batch))
        reply = yield from _call(group, "ack", called, group.epoch, up_to, milliseconds)
        rows += reply[1]
    return rows


def forget(group: Group, up_to: int) -> Operation[None]:
    """Delete kept claims; see `ackq.queue.Claims.forget`."""
    _require_begun(group)
    check_integer(up_to, "up_to", 0, LARGEST_INTEGER)
    keys = group.spec.keys
    known = yield from _facts(group, b"acked", b"forgotten")
    last = min(up_to, known[0])
    for batch in range(max(known[1], last - FORGOTTEN) + 1, last + 1):
        called = (keys.held, group.key, keys.claim(group.name, batch))
        yield from _call(group, "forget", called, group.epoch, batch)


def beat(group: Group) -> Operation[None]:
    """Renew leases; see `ackq.queue.Claims.beat`."""
    _require_begun(group)
    names = [each.name for _, each in reversed((yield from _open(group)))]
    for first in range(0, max(1, len(names)), CHUNK):
        chunk = names[first : first + CHUNK]
        called = (group.spec.keys.held, group.key)
        yield from _call(group, "beat", called, group.epoch, group.lease, *chunk)


def look(group: Group, first: int, last: int) -> Operation[list[Claim]]:
    """List the readable claims; see `ackq.queue.Claims.look`."""
    check_integer(first, "first", 0, LARGEST_INTEGER)
    check_integer(last, "last", 0, LARGEST_INTEGER)
    known = {each.name: each for each in (yield from handed_over.lists(group.spec))[1]}
    found = []
    for batch in range(max(1, first), last + 1):
        name = group.spec.keys.claim(group.name, batch)
        if name in known:
            rows = known[name].rows if known[name].score else 0
        else:
            rows = yield from _read_only(group, b"LLEN", name)
        if rows:
            found.append(Claim(batch, rows))
    return found


def read(group: Group, batch: int, start: int, count: int) -> Operation[list[bytes]]:
    """Read messages of a claim; see `ackq.queue.Claims.read`."""
    check_integer(batch, "batch", 1, LARGEST_INTEGER)
    check_integer(start, "start", 0, LARGEST_INTEGER)
    check_integer(count, "count", 0, LARGEST_INTEGER)
    if not count:
        return []
    keys = group.spec.keys
    name, is_left = keys.claim(group.name, batch), keys.pop_from == "left"
    first = start if is_left else -(start + count)
    bodies: list[bytes] = yield from _read_only(group, b"LRANGE", name, first, first + count - 1)
    if len(bodies) != count:
        raise ClaimLost(
            f"{_who(group)}: batch {batch} has no messages {start} to {start + count - 1} (any"
            " more): its lease ended, it was released, or it was acked and deleted",
            group=group.name,
            batch=batch,
        )
    return bodies if is_left else bodies[::-1]


def release(group: Group) -> Operation[int]:
    """Return all open claims to the queue; see `ackq.queue.Claims.release`."""
    called = (group.spec.keys.held, group.key)
    # Fence first: after that, no claims are added to the list.
    yield from _call(group, "release", called, group.epoch)
    _, found = yield from handed_over.lists(group.spec)
    # Newest first: each goes in front of the one returned before it.
    own = sorted(
        ((named[1], each.name) for each in found
         if (named := handed_over.claim_of(group.spec, each.name)) and named[0] == group.name),
        reverse=True,
    )  # fmt: skip
    names = [name for _, name in own]
    for first in range(0, len(names), CHUNK):
        yield from _call(group, "release", called, group.epoch, *names[first : first + CHUNK])
    rows = 0
    for name in names:
        rows += yield from handed_over.return_to_queue(group.spec, name)
    # Only now, so that a repeat after an error still uses this driver's epoch.
    group.epoch = group.claiming = 0
    return rows


def end_holds(spec: QueueSpec) -> Operation[int]:
    """Return the claims of all groups, and finish unfinished moves; return how many messages."""
    rows = 0
    _, found = yield from handed_over.lists(spec)
    groups = {named[0] for each in found if (named := handed_over.claim_of(spec, each.name))}
    for name in sorted(groups):
        rows += yield from release(Group(spec, name, LONGEST))
    for each in found:
        if not handed_over.claim_of(spec, each.name):
            rows += yield from handed_over.return_to_queue(spec, each.name)
    return rows


def _open(group: Group) -> Operation[list[tuple[int, handed_over.Held]]]:
    """Return the group's claims that are not being returned to the queue, oldest first."""
    _, found = yield from handed_over.lists(group.spec)
    own = []
    for each in found:
        named = handed_over.claim_of(group.spec, each.name)
        if each.score and named and named[0] == group.name:
            own.append((named[1], each))
    return sorted(own, key=lambda pair: pair[0])


def _next(group: Group, after: int) -> Operation[int]:
    """Return the number of the next claim: the unfinished one of this process, if any."""
    if group.claiming > after:
        return group.claiming
    return max(after, *(yield from _facts(group, b"last", b"acked"))) + 1


def _facts(group: Group, *fields: bytes) -> Operation[list[int]]:
    values = yield from _read_only(group, b"HMGET", group.key, *fields)
    return [int(value or 0) for value in values]


def _step(group: Group, batch: int, messages: int, size: int | None) -> Operation[Sequence[Any]]:
    keys = group.spec.keys
    called = (*keys.all()[:12], group.key, keys.claim(group.name, batch), keys.errors,
              *keys.if_left)  # fmt: skip
    args = (group.epoch, batch, messages, size or 0, group.lease)
    try:
        reply: Sequence[Any] = yield from _call(group, "claim", called, *args)
    except ResponseError as error:
        if not pop_from.is_missing(error):
            raise
        yield from pop_from.record(keys)
        reply = yield from _call(group, "claim", called, *args)
    return reply


def _call(group: Group, name: str, keys: Sequence[bytes], *args: Arg) -> Operation[Any]:
    # All of these may be sent again: they are fenced by the epoch and idempotent.
    request = Request((len(keys), *keys, *args), script=scripts.load(f"claims/{name}"), resend=True)
    reply = yield from call(group.spec, request)
    if reply[0] == b"fenced":
        raise _fenced(group, reply[1])
    return reply


def _fenced(group: Group, epoch: int) -> Fenced:
    return Fenced(
        f"{_who(group)}: another process took it over (its epoch is {epoch}, this one's"
        f" {group.epoch}), so nothing was changed. Give each query a group of its own, or stop"
        " this one",
        group=group.name,
    )


def _read_only(group: Group, *command: Arg) -> Operation[Any]:
    return (yield from call(group.spec, Request(command, resend=True)))


def _require_begun(group: Group) -> None:
    if not group.epoch:
        raise ConfigurationError(f"{_who(group)}: call begin() first, it takes the group over")


def _who(group: Group) -> str:
    return f"queue {group.spec.name!r}, group {group.name!r}"
