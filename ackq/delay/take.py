"""Take from a delay queue, at once or after waiting for a ready message."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ackq import scripts
from ackq.config import Seconds, check_integer, microseconds
from ackq.core.call import call
from ackq.core.chunks import TAKE_CHUNK
from ackq.core.effects import Operation, Request, Sleep
from ackq.core.operation_marks import Receive, observed
from ackq.core.waits import Deadline, block, seconds_of, shorten
from ackq.delay.messages import DelayedMessage, DelaySpec, decode_key
from ackq.delay.staged_rows import move
from ackq.membership.operations import Assignment, Session, heartbeat
from ackq.staging.recovery import UnfinishedCommits

#: Seconds of jitter on a wait, so that one ready time does not wake every consumer at once.
WAIT_JITTER = 0.002
#: Seconds between two checks of a consumer that owns no partition.
IDLE_POLL = 0.1


@observed(Receive("take"))
def take(
    spec: DelaySpec,
    wanted: int,
    timeout: Seconds | None,
    visibility_timeout: Seconds | None,
    session: Session | None,
    unfinished: UnfinishedCommits,
) -> Operation[list[DelayedMessage]]:
    """Take up to ``wanted`` messages; see `ackq.delay.DelayQueue.take`."""
    check_integer(wanted, "take", 1, 2**53)
    deadline = Deadline(timeout)
    lease = microseconds(
        spec.config.visibility_timeout if visibility_timeout is None else visibility_timeout,
        "visibility_timeout",
    )
    while True:
        yield from unfinished.move_in(partial(move, spec, unfinished.keys))
        # Another thread may change the assignment meanwhile, so read it once for this call.
        assignment = session.assignment if session else None
        partitions = _owned(spec, assignment)
        wait = -1
        if partitions:
            reply = yield from _call(spec, partitions, min(wanted, TAKE_CHUNK), lease, assignment)
            status = reply[0]
            if status == b"ok":
                return _messages(spec, partitions, reply, assignment)
            if status == b"again":
                continue
            if status == b"stale" and spec.group is not None and session is not None:
                if (yield from heartbeat(spec.group, session)) != assignment:
                    continue
                partitions = ()  # another consumer is computing the assignment
            else:
                wait = reply[1]
        left = yield from deadline.left()
        if not left:
            return []
        yield from _wait(spec, partitions, wait, left)


def _owned(spec: DelaySpec, assignment: Assignment | None) -> Sequence[int]:
    """Return the partitions to check, beginning with a different one each time."""
    if spec.group is None:
        return (0,)
    owned = assignment.partitions if assignment else ()
    if not owned:
        return ()
    turn = int(spec.outside.fraction() * len(owned))
    return owned[turn:] + owned[:turn]


def _call(
    spec: DelaySpec,
    partitions: Sequence[int],
    wanted: int,
    lease: int,
    assignment: Assignment | None,
) -> Operation[Sequence[Any]]:
    keys = [*spec.fence.all()[:2], *spec.keys_of(partitions)]
    owner, generation = (assignment.session, assignment.generation) if assignment else ("", 0)
    request = Request(
        (
            len(keys),
            *keys,
            owner,
            generation,
            wanted,
            lease,
            spec.outside.jitter(),
            spec.config.max_receives or 0,
        ),
        script=scripts.load("delay/take"),
    )
    reply: Sequence[Any] = yield from call(spec, request)
    return reply


def _messages(
    spec: DelaySpec, partitions: Sequence[int], reply: Sequence[Any], assignment: Assignment | None
) -> list[DelayedMessage]:
    receipt = reply[1]
    session = assignment.session.encode() if assignment else b""
    return [
        DelayedMessage(
            spec.name,
            decode_key(reply[at + 1]),
            reply[at + 2],
            partition=spec.number(partitions[reply[at] - 1]),
            ready_time=float(reply[at + 3]),
            receipt=receipt,
            receive_count=reply[at + 4],
            session=session,
        )
        for at in range(2, len(reply), 5)
    ]


def _wait(spec: DelaySpec, partitions: Sequence[int], wait: int, timeout: float) -> Operation[None]:
    """Wait for an earlier message, the next ready time, or the block limit."""
    if not partitions:
        yield Sleep(min(timeout, IDLE_POLL))
        return
    block_limit = min(spec.block_limit, timeout)
    if wait >= 0:
        left = wait / 1_000_000 + spec.outside.fraction() * WAIT_JITTER
        block_limit = yield from shorten(block_limit, left)
        if not block_limit:
            return
    wakes = [spec.partitions[index].wake for index in partitions]
    yield from block(spec, (b"BLPOP", *wakes, seconds_of(block_limit)), block_limit)
