"""Ack, nack, release, reject and extend. All but ack_id are fenced by the receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from ackq import scripts
from ackq.config import Confirm, Seconds, microseconds
from ackq.core.backoff import backoff
from ackq.core.call import call
from ackq.core.chunks import SETTLE_CHUNK
from ackq.core.effects import Arg, Operation, Request
from ackq.core.failure import capture
from ackq.core.failure_notes import failed_chunks, note_error
from ackq.core.fencing import Verb, settle
from ackq.core.limits import MAX_DELAY
from ackq.core.operation_marks import Settle, observed
from ackq.errors import LeaseLost
from ackq.queue.messages import Message, by_receipt, own_messages
from ackq.queue.spec import QueueSpec

ACK = Verb("ack", "ack")
NACK = Verb("nack", "nack", failed_chunks, gives_back=True, notes_errors=True)
RELEASE = Verb("release", "nack", gives_back=True)
REJECT = Verb("reject", "nack", failed_chunks, kills=True, notes_errors=True)
EXTEND = Verb("extend", "extend", settles=False, marks="canceled")

#: What a settling method takes.
Given = Message | Iterable[Message]
#: The arguments of a call that settles some messages, and the messages in its order.
Named = tuple[tuple[Arg, ...], Sequence[Message]]


@observed(Settle("ack"))
def ack(spec: QueueSpec, given: Sequence[Given], confirm: Confirm | None = None) -> Operation[int]:
    """Ack messages; see `ackq.Queue.ack`."""
    messages = own_messages(spec.name, given, ACK.name)

    def arguments(chunk: Sequence[Message]) -> Named:
        # Acked messages are gone, so their order does not matter.
        named, order = by_receipt(chunk)
        return (*spec.ack_keys, *named), order

    return (yield from settle(spec, ACK, messages, arguments, confirm, spec.settle_chunk))


def ack_request(spec: QueueSpec, named: Sequence[Arg]) -> Request:
    """Return the request that acks messages, named by `by_receipt`."""
    return Request((*spec.ack_keys, *named), scripts.load("ack"), resend=True)


def ack_id(spec: QueueSpec, ids: Sequence[str | int]) -> Operation[int]:
    """Ack by bare id; see `ackq.Queue.ack_id`."""
    settled = at = 0
    while at < len(ids):
        chunk = [str(message_id) for message_id in ids[at : at + SETTLE_CHUNK]]
        request = Request(
            (*spec.keys.passed("ack_id"), *chunk),
            script=scripts.load("ack_id"),
            resend=True,
        )
        count, looked = yield from call(spec, request)
        settled += count
        at += looked
    return settled


@observed(Settle("nack"))
def nack(
    spec: QueueSpec,
    given: Sequence[Given],
    delay: Seconds | None,
    charge: bool = True,
    error: BaseException | None = None,
) -> Operation[int]:
    """Nack or release messages; see `ackq.Queue.nack` and `ackq.Queue.release`."""
    keys, config = spec.keys, spec.config
    fixed = None if delay is None else microseconds(delay, "delay", MAX_DELAY, zero=True)

    def delay_of(message: Message) -> int:
        if fixed is not None:
            return fixed
        if config.requeue == "back":
            return -2 if keys.pop_from == "left" else -1
        return round(backoff(message.receive_count) * 1_000_000)

    verb = NACK if charge else RELEASE
    head = (*keys.passed("nack"), verb.name, config.max_receives or 0, "")
    messages = own_messages(spec.name, given, verb.name)
    note_error(messages, error, config.record_errors)

    def arguments(chunk: Sequence[Message]) -> Named:
        return (*head, *_runs(chunk, delay_of)), chunk

    spec.emptiness.is_known = False  # the next pop learns when the first of them is due
    return (yield from settle(spec, verb, messages, arguments))


@observed(Settle("reject"))
def reject(
    spec: QueueSpec, given: Sequence[Given], reason: str, error: BaseException | None = None
) -> Operation[int]:
    """Move messages to the dead letters; see `ackq.Queue.reject`."""
    head = (*spec.keys.passed("nack"), REJECT.name, 0, reason)
    messages = own_messages(spec.name, given, REJECT.name)
    note_error(messages, error, spec.config.record_errors)

    def arguments(chunk: Sequence[Message]) -> Named:
        return (*head, *_runs(chunk, lambda message: 0)), chunk

    return (yield from settle(spec, REJECT, messages, arguments))


def extend(spec: QueueSpec, given: Sequence[Given], timeout: Seconds | None) -> Operation[int]:
    """Renew leases; see `ackq.Queue.extend`."""
    if timeout is None:
        timeout = spec.config.visibility_timeout
    lease = microseconds(timeout, "timeout")
    messages = own_messages(spec.name, given, EXTEND.name)

    def arguments(chunk: Sequence[Message]) -> Named:
        named, order = by_receipt(chunk)
        head = (*spec.keys.passed("extend"), lease, spec.outside.jitter())
        return (*head, *named), order

    return (yield from settle(spec, EXTEND, messages, arguments))


def run_alone(
    spec: QueueSpec, message: Message, count: int, max_receives: int, error: BaseException
) -> Operation[bool]:
    """Note that a leased message begins to run alone, and read its body.

    Args:
        spec: of the queue.
        message: under a lease. It gets the body and the receive count.
        count: the number of this delivery.
        max_receives: how often the message may be received; 0: no limit.
        error: why this delivery failed if nobody sees its end.

    Returns:
        Whether the message may run. If not, its last permitted delivery is known to have failed, or
        to have run alone.

    Raises:
        LeaseLost: the caller no longer has the lease.
    """
    failure = capture(error, spec.config.record_errors)
    named = (message.receipt, message.key, count, max_receives, failure)
    request = Request((*spec.keys.passed("alone"), *named), scripts.load("alone"), resend=True)
    status, *body = yield from call(spec, request)
    if status == b"lost":
        message.lease_lost = True
        raise LeaseLost(f"queue {spec.name!r}: {message.id!r} cannot run", messages=(message,))
    message.receive_count = count
    message.body = body[0] if body else message.body
    return bool(status == b"ok")


def _runs(messages: Sequence[Message], delay_of: Callable[[Message], int]) -> list[Arg]:
    """Return script arguments, one group per run of equal receipt and delay, in order."""
    args: list[Arg] = []
    for head, run in groupby(messages, lambda message: (message.receipt, delay_of(message))):
        keys = [message.key for message in run]
        args += (*head, len(keys), *keys)
    return args
