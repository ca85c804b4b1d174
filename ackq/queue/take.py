"""Pop messages, at once or after waiting, and ack finished ones in the same call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from redis.exceptions import RedisError, ResponseError

from ackq import scripts
from ackq.config import microseconds
from ackq.core import fencing
from ackq.core.chunking import TAKE_CHUNK, settle_chunks
from ackq.core.effects import Arg, Operation, Request, Sleep
from ackq.core.observed import Receive, observed
from ackq.core.waiting import AT_ONCE, PAUSED_POLL, WAIT_JITTER, Deadline, block
from ackq.errors import ConfigurationError, LeaseLost, UnknownOutcome
from ackq.queue import pop_from
from ackq.queue.held_lists import return_some
from ackq.queue.messages import Message, by_receipt, check_own
from ackq.queue.settle import ACK, ack
from ackq.queue.spec import QueueSpec

#: Seconds between two ticks of an idle Redis, by its default. Blocking commands end on a tick.
SERVER_TICK = 0.1
#: Waiting consumers of one queue object that are enough for the pushes within a tick.
ENOUGH_WAITING = 10
#: The columns of pop.lua's reply. After the first four of an "ok" follow the messages, each in the
#: columns that `messages_in` yields.
STATUS, REFUSED, RECEIPT, COUNTS, MESSAGES = range(5)
#: The last column of another reply: the µs of an "empty" one, the held list of a "held" one.
WAIT = HELD = 2


@observed(Receive("pop", settles=4, settled_as="ack"))
def pop_many(
    spec: QueueSpec,
    wanted: int,
    timeout: float | None,
    visibility_timeout: float | None,
    acked: Iterable[Message] | Message,
) -> Operation[list[Message]]:
    """Take up to ``wanted`` messages; see `ackq.Queue.pop_many`."""
    settled = () if acked == () else _as_messages(spec, acked)
    deadline = AT_ONCE if timeout is None else Deadline(timeout)
    lease = check(spec.lease, wanted, visibility_timeout)
    if len(settled) > 1:
        settled, *others = settle_chunks(settled)
        for part in others:
            yield from _ack_marking(spec, part)
    while True:
        jitter = spec.outside.jitter()
        args: Sequence[Arg] = ()
        order: Sequence[Message] = ()
        if settled:
            held, _ = fencing.admit(ACK, settled)
            args, order = by_receipt(held)
        request = Request(
            (*spec.pop_keys, min(wanted, TAKE_CHUNK), lease, jitter, *spec.pop_settings, *args),
            scripts.load("pop"),
            constant=len(spec.pop_keys),
        )
        for message in order:
            message.settles_sent += 1
        try:
            # Not through `call` or `send`: another generator costs as much as encoding a message.
            reply: Sequence[Any] = yield request
        except fencing.APPLIED_NOTHING as error:
            yield from _recover(spec, request, order, error)
            continue
        if order:
            fencing.note_reply(ACK, order, reply[REFUSED], request)
        settled = ()
        status = reply[STATUS]
        if status == b"ok":
            return _messages(spec, reply, lease + jitter)
        if status == b"again":
            continue
        if status == b"held":
            yield from return_some(spec, reply[HELD])
            continue
        left = yield from deadline.left()
        if not left:
            return []
        yield from _wait(spec, reply, left)


def check(lease: int, wanted: int, visibility_timeout: float | None) -> int:
    """Check the arguments of a pop, and return the µs that its leases last.

    Args:
        lease: the queue's visibility timeout in µs.
        wanted: how many messages.
        visibility_timeout: of this call, in seconds; None: the queue's.

    Raises:
        ConfigurationError: one is out of range.
    """
    if visibility_timeout is not None:
        lease = microseconds(visibility_timeout, "visibility_timeout")
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        raise ConfigurationError(f"pop_many takes a number of messages from 1, not {wanted!r}")
    return lease


def _recover(
    spec: QueueSpec, request: Request, acked: Sequence[Message], error: Exception
) -> Operation[None]:
    """Return if the pop that failed can be called again, else raise the error."""
    try:
        yield from fencing.raise_failed(spec, request, acked, error)
    except ResponseError as error:
        if not pop_from.is_missing(error):
            raise
        yield from pop_from.record(spec.keys)
    except UnknownOutcome:
        # The acks are fenced, so they can be sent again alone. Messages that the lost call leased
        # are delivered again after their visibility timeout. If the acks fail too, report the lost
        # pop.
        with contextlib.suppress(RedisError):
            yield from _ack_marking(spec, acked)
        raise


def _ack_marking(spec: QueueSpec, messages: Sequence[Message]) -> Operation[None]:
    """Ack without raising for refused messages: only mark them, as a pop with acks does."""
    with contextlib.suppress(LeaseLost):
        yield from ack(spec, messages)


def messages_in(reply: Sequence[Any]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and the body of each message in pop.lua's reply."""
    values = iter(reply[MESSAGES:])
    return zip(values, values, strict=True)


def _messages(spec: QueueSpec, reply: Sequence[Any], lease: int) -> list[Message]:
    receipt = reply[RECEIPT]
    name = spec.name
    delivery = ((receipt - lease) / 1_000_000, spec.config.time_field)
    messages = [Message(name, key, body, receipt, 1, delivery) for key, body in messages_in(reply)]
    for at, count in enumerate(reply[COUNTS]):
        messages[at].receive_count = count
    return messages


def _wait(spec: QueueSpec, reply: Sequence[Any], timeout: float) -> Operation[None]:
    """Wait for a push, the next deadline or due time, or the block limit."""
    if reply[STATUS] == b"paused":
        yield Sleep(min(timeout, PAUSED_POLL))
        return
    # Spread the retries of waiters that started together.
    whole = spec.block_limit * (0.75 + 0.25 * spec.outside.fraction())
    block_limit = min(whole, timeout)
    if reply[WAIT] >= 0:
        block_limit = min(
            block_limit, reply[WAIT] / 1_000_000 + spec.outside.fraction() * WAIT_JITTER
        )
    in_vain = yield from _block(spec, block_limit)
    if in_vain and block_limit == whole and len(spec.waiting) >= ENOUGH_WAITING:
        # Waits that end on the same tick would all retry at once, and delay a message pushed just
        # then. Enough other consumers are still waiting for it, so spread the retries.
        yield Sleep(min(spec.outside.fraction() * SERVER_TICK, timeout - block_limit))


def _block(spec: QueueSpec, block_limit: float) -> Operation[bool]:
    """Wait for a push; return True if the time passed without one."""
    spec.waiting.append(None)
    try:
        return (yield from block(spec, spec.keys.wait(block_limit), block_limit)) is None
    finally:
        spec.waiting.pop()


def _as_messages(spec: QueueSpec, acked: Iterable[Message] | Message) -> Sequence[Message]:
    messages = (acked,) if isinstance(acked, Message) else tuple(acked)
    check_own(spec.name, messages)
    return messages
