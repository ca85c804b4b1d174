"""Pop messages, at once or after waiting, and ack finished ones in the same call."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from redis.exceptions import RedisError, ResponseError

from ackq import scripts
from ackq.config import Seconds, microseconds
from ackq.core import fencing
from ackq.core.chunks import TAKE_CHUNK, settle_chunks
from ackq.core.effects import Arg, Clock, Operation, Pipeline, Request, Sleep
from ackq.core.operation_marks import Receive, observed
from ackq.core.waits import (
    AT_ONCE,
    PAUSED_POLL,
    SOON_POLL,
    Deadline,
    blocks_until,
    check_waited,
    raise_unknown,
)
from ackq.errors import ConfigurationError, LeaseLost, UnknownOutcome
from ackq.queue import record
from ackq.queue.held_lists import return_some
from ackq.queue.messages import Message, by_receipt, own_messages
from ackq.queue.settle import ACK, ack, ack_request
from ackq.queue.spec import QueueSpec

log = logging.getLogger("ackq.queue")
#: The delivery of a message that is logged if the queue has no ``max_receives``.
POISON = 10
#: The columns of pop.lua's reply. After the first four follow the messages, each in the
#: columns that `messages_in` yields.
STATUS, REFUSED, RECEIPT, COUNTS, MESSAGES = range(5)
#: The statuses of a reply with messages. After the last one, nothing else can be taken.
TAKEN = OK, LAST = b"ok", b"last"
#: The reply if the request has to be sent again, alone.
AGAIN: Sequence[Any] = (b"again", ())
#: The statuses if nothing can be taken: there is nothing, or the queue has all the leases that it
#: may have.
NOTHING = (b"empty", b"limited")
#: The last column of another reply: the µs of one of `NOTHING`, the held list of a "held" one.
WAIT = HELD = 2
#: The last column of a reply of `NOTHING` to a consumer that waits: about how many consumers do.
WAITERS = 3
#: Seconds between two looks at an empty queue, on average, of all consumers that wait together.
LOOK_INTERVAL = 0.05
#: µs of waiting for which the first look of a client counts in the estimate of the waiters, so that
#: thousands that start at once are known before they have waited.
FIRST_LOOK = 1_000_000
#: Longest wait in seconds.
MAX_WAIT = 600.0
#: Seconds over which the looks of one waiting consumer more are spread when a lease ends or a
#: message is due, and most seconds for all.
EVENT_INTERVAL, EVENT_SPREAD = 0.001, 1.0


@observed(Receive("pop", settles=4, settled_as="ack"))
def pop_many(
    spec: QueueSpec,
    wanted: int,
    timeout: Seconds | None,
    visibility_timeout: Seconds | None,
    acked: Iterable[Message] | Message,
) -> Operation[list[Message]]:
    """Take up to ``wanted`` messages; see `ackq.Queue.pop_many`."""
    settled = () if acked == () else _as_messages(spec, acked)
    deadline = AT_ONCE if timeout is None else Deadline(timeout)
    lease = check(spec.lease, wanted, visibility_timeout)
    if len(settled) > 1:
        settled, *others = settle_chunks(settled, spec.settle_chunk)
        for part in others:
            yield from _ack_marking(spec, part)
    emptiness = spec.emptiness
    is_counted = emptiness.shares_looks
    waits = (
        -1 if not deadline.timeout else FIRST_LOOK if is_counted and not emptiness.look_at else 0
    )
    while True:
        jitter = spec.outside.jitter()
        block = (yield from emptiness.lasts(deadline)) if emptiness.is_known else 0.0
        args: Sequence[Arg] = ()
        order: Sequence[Message] = ()
        if block and emptiness.sleep:
            left, block = block, blocks_until(block)
            if not block and not settled:
                left = min(left, emptiness.sleep)
                yield Sleep(left)
                waits = round(left * 1_000_000) if is_counted else 0
        if settled:
            held, _ = fencing.admit(ACK, settled)
            args, order = by_receipt(held)
            if emptiness.is_limited:
                block = 0.0  # these acks make room
        how: Sequence[Arg] = (
            (round(block * 1_000_000) if is_counted else 0,) if block else (waits, *args)
        )
        request = Request(
            (*spec.pop_keys, min(wanted, TAKE_CHUNK), lease, jitter, *spec.pop_settings, *how),
            scripts.load(spec.pop_script),
            constant=len(spec.pop_keys),
        )
        for message in order:
            message.settles_sent += 1
        if block:
            reply = yield from _wait_and_pop(spec, request, args, order, block)
        else:
            try:
                # Not through `call` or `send`: a generator costs as much as encoding a message.
                reply = yield request
            except fencing.APPLIED_NOTHING as error:
                yield from _recover(spec, request, order, error)
                continue
            if order:
                fencing.note_reply(ACK, order, reply[REFUSED], request)
        settled = ()
        status = reply[STATUS]
        emptiness.is_known, emptiness.is_limited = status == LAST, status == b"limited"
        if status in TAKEN:
            return _messages(spec, reply, lease + jitter)
        if reply is AGAIN:
            continue
        if status == b"held":
            yield from return_some(spec, reply[HELD])
            continue
        if status in NOTHING and deadline.timeout:
            yield from _remember(spec, reply[WAIT], reply[WAITERS])
        left = yield from deadline.left()
        if not left and (deadline.timeout or status != b"again"):
            return []
        if status == b"paused":
            yield Sleep(min(left, PAUSED_POLL))


def check(lease: int, wanted: int, visibility_timeout: Seconds | None) -> int:
    """Check the arguments of a pop, and return the µs that its leases last.

    Args:
        lease: the queue's visibility timeout in µs.
        wanted: how many messages.
        visibility_timeout: of this call; None: the queue's.

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
        if not record.is_refused(error):
            raise
        yield from record.record(spec)
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


def latest(spec: QueueSpec, taker: str) -> Operation[list[Message]]:
    """Return the messages that a supervised process took last and that are still its own.

    Their bodies and receive counts are not read. Those whose leases were extended are left out.
    """
    receipt = yield Request((b"GET", spec.keys.taken(taker)), resend=True)
    if not receipt:
        return []
    span = (receipt, receipt, b"LIMIT", 0, TAKE_CHUNK)
    keys = yield Request((b"ZRANGEBYSCORE", spec.keys.backup, *span), resend=True)
    return [Message(spec.name, key, b"", int(receipt), 1) for key in keys]


def messages_in(reply: Sequence[Any]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and the body of each message in pop.lua's reply."""
    values = iter(reply[MESSAGES:])
    return zip(values, values, strict=True)


def _messages(spec: QueueSpec, reply: Sequence[Any], lease: int) -> list[Message]:
    receipt = reply[RECEIPT]
    name = spec.name
    delivery = ((receipt - lease) / 1_000_000, spec.config.time_field, spec.group_field)
    messages = [Message(name, key, body, receipt, 1, delivery) for key, body in messages_in(reply)]
    for at, count in enumerate(reply[COUNTS]):
        messages[at].receive_count = count
        if count == POISON and spec.config.max_receives is None:
            log.warning(
                "queue %r: message %r is delivered for the %dth time. If it always fails, it"
                " circulates forever: set max_receives, or reject it",
                name,
                messages[at].id,
                count,
            )
    return messages


def _remember(spec: QueueSpec, next_event: int, waiters: int) -> Operation[None]:
    """Remember that the queue is empty, until the next look.

    Consumers share the looks: each waits longer the more there are, and draws how long, so that
    some consumer looks every `LOOK_INTERVAL`.

    Args:
        spec: of the queue.
        next_event: µs until the next lease ends or message is due; -1: none will.
        waiters: about how many consumers wait.
    """
    draw = spec.outside.fraction
    found = spec.emptiness
    seconds = max(
        spec.block_limit * (0.75 + 0.25 * draw()),
        min(MAX_WAIT, waiters * LOOK_INTERVAL) * (0.5 + draw()),
    )
    found.sleep = 0.0
    if 0 <= next_event < seconds * 1_000_000:
        spread = min(EVENT_SPREAD, waiters * EVENT_INTERVAL)
        found.sleep, seconds = max(SOON_POLL, spread), next_event / 1_000_000 + draw() * spread
    now: float = yield Clock()
    found.is_known, found.look_at = True, now + seconds


def _wait_and_pop(
    spec: QueueSpec, request: Request, args: Sequence[Arg], acked: Sequence[Message], block: float
) -> Operation[Sequence[Any]]:
    """Ack, wait for a push, and pop, in one round trip; return the reply to the pop.

    The server pops when the wait ends, so the lease begins there, and a message arrives with the
    reply. Of the messages on the list, the wait moves one at most.

    Args:
        spec: of the queue.
        request: the pop, without acks.
        args: what is acked, as arguments of the script.
        acked: the messages that are named there.
        block: longest wait in seconds.
    """
    acks = [ack_request(spec, args)] if acked else []
    command = spec.keys.wait_for_room if spec.emptiness.is_limited else spec.keys.wait
    wait = Request(command(block), blocks=block)
    try:
        *settles, waited, reply = yield Pipeline((*acks, wait, request))
    except fencing.APPLIED_NOTHING:
        for message in acked:
            message.settles_sent -= 1
        spec.emptiness.is_known = False
        raise
    if isinstance(reply, Exception) or isinstance(waited, Exception):
        spec.emptiness.is_known = False  # the next request is a single one, which is sent again
    is_taken = not isinstance(reply, Exception) and reply[STATUS] in TAKEN
    for sent, answer in zip(acks, settles, strict=True):
        yield from _finish_acks(spec, sent, answer, acked, is_taken)
    if isinstance(reply, Exception):
        raise_unknown(reply, waited, request)
        reply = AGAIN
    if not is_taken:
        yield from check_waited(spec, waited, block)
    return cast(Sequence[Any], reply)


def _finish_acks(
    spec: QueueSpec, request: Request, answer: Any, acked: Sequence[Message], is_taken: bool
) -> Operation[None]:
    """Record which acks were applied. Send them again, alone, if they may not have been."""
    if not isinstance(answer, Exception):
        fencing.note_reply(ACK, acked, answer[1:], request)
        return
    if isinstance(answer, ResponseError):
        for message in acked:
            message.settles_sent -= 1
    # An error must not keep the messages that were taken from the caller.
    with contextlib.suppress(RedisError) if is_taken else contextlib.nullcontext():
        yield from _ack_marking(spec, acked)


def _as_messages(spec: QueueSpec, acked: Iterable[Message] | Message) -> Sequence[Message]:
    given = tuple(acked) if isinstance(acked, Iterable) else (acked,)
    return own_messages(spec.name, given, ACK.name)
