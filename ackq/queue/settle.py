"""Ack, nack, release, reject and extend. All but ack_id are fenced by the receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from ackq import scripts
from ackq.config import Confirm, microseconds
from ackq.core import failure_notes, fencing
from ackq.core.backoff import backoff
from ackq.core.call import call
from ackq.core.chunking import SETTLE_CHUNK, settle_chunks
from ackq.core.confirm import check_confirmed, require_confirmable
from ackq.core.effects import Arg, Operation, Request
from ackq.core.fencing import split_remaining
from ackq.core.io.jitter import draw_jitter
from ackq.core.limits import LATEST
from ackq.core.observed import Settle, observed
from ackq.errors import ConfigurationError
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec


@observed(Settle("ack"))
def ack(
    spec: QueueSpec, messages: Sequence[Message], confirm: Confirm | None = None
) -> Operation[int]:
    """Ack messages; see `ackq.Queue.ack`."""
    keys = spec.keys
    head = (
        7,
        keys.backup,
        keys.context,
        keys.receives,
        keys.extended,
        keys.delayed,
        keys.counters,
        keys.errors,
    )
    return (yield from _settle(spec, "ack", head, messages, confirm))


def ack_id(spec: QueueSpec, ids: Sequence[str | int]) -> Operation[int]:
    """Ack by bare id; see `ackq.Queue.ack_id`."""
    keys = spec.keys
    settled = at = 0
    while at < len(ids):
        chunk = [str(each) for each in ids[at : at + SETTLE_CHUNK]]
        request = Request(
            (
                6,
                keys.backup,
                keys.context,
                keys.receives,
                keys.extended,
                keys.errors,
                keys.counters,
                *chunk,
            ),
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
    messages: Sequence[Message],
    delay: float | None,
    charge: bool = True,
    error: BaseException | None = None,
) -> Operation[int]:
    """Nack or release messages; see `ackq.Queue.nack` and `ackq.Queue.release`."""
    keys, config = spec.keys, spec.config
    fixed = None if delay is None else _delay_us(delay)

    def delay_of(message: Message) -> int:
        if fixed is not None:
            return fixed
        if config.requeue == "back":
            return -2 if keys.pop_from == "left" else -1
        return round(backoff(message.receive_count) * 1_000_000)

    head = (
        9,
        keys.ready,
        keys.backup,
        keys.context,
        keys.receives,
        keys.extended,
        keys.delayed,
        keys.dead,
        keys.errors,
        keys.counters,
        int(charge),
        config.max_receives or 0,
    )
    verb = "nack" if charge else "release"
    return (yield from _settle(spec, verb, head, messages, None, delay_of, error))


@observed(Settle("reject"))
def reject(
    spec: QueueSpec, messages: Sequence[Message], reason: str, error: BaseException | None = None
) -> Operation[int]:
    """Move messages to the dead letters; see `ackq.Queue.reject`."""
    keys = spec.keys
    head = (
        8,
        keys.backup,
        keys.context,
        keys.receives,
        keys.extended,
        keys.delayed,
        keys.dead,
        keys.errors,
        keys.counters,
        reason,
    )
    return (yield from _settle(spec, "reject", head, messages, error=error))


def extend(spec: QueueSpec, messages: Sequence[Message], timeout: float | None) -> Operation[int]:
    """Renew leases; see `ackq.Queue.extend`."""
    keys = spec.keys
    if timeout is None:
        timeout = spec.config.visibility_timeout
    microseconds_from_now = microseconds(timeout, "timeout")
    extended = 0
    refused: list[Message] = []
    check_own(spec, messages)
    held, given_back = fencing.admit(fencing.EXTEND, messages)
    for chunk in settle_chunks(held):
        args, order = group(chunk)
        request = Request(
            (
                3,
                keys.backup,
                keys.extended,
                keys.delayed,
                microseconds_from_now,
                draw_jitter(),
                *args,
            ),
            script=scripts.load("extend"),
            resend=True,
        )
        deadline, count, *positions = yield from fencing.send(spec, fencing.EXTEND, request, order)
        refused += fencing.note_reply(fencing.EXTEND, order, positions, request)
        extended += count
        for message in order:
            if not message.lease_lost:
                message.lease_expires_at = deadline / 1_000_000
    fencing.raise_if_refused(_where(spec), fencing.EXTEND, refused, given_back, extended, _name_of)
    return extended


def group(messages: Sequence[Message]) -> tuple[list[Arg], Sequence[Message]]:
    """Return script arguments grouped by receipt, and the messages in the same order.

    Messages from one pop share a receipt, so it is passed once for all of them.
    """
    if messages:
        receipt = messages[0].receipt
        if len(messages) == 1:
            return [receipt, 1, messages[0].key], messages
        keys = [message.key for message in messages if message.receipt == receipt]
        if len(keys) == len(messages):
            return [receipt, len(keys), *keys], messages
    groups: dict[int, list[Message]] = {}
    for message in messages:
        groups.setdefault(message.receipt, []).append(message)
    args: list[Arg] = []
    order: list[Message] = []
    for receipt, members in groups.items():
        args += (receipt, len(members), *(message.key for message in members))
        order += members
    return args, order


def runs(
    messages: Sequence[Message], delay_of: Callable[[Message], int] | None = None
) -> list[Arg]:
    """Return script arguments, one group per run of equal receipt and delay, in order."""

    def head_of(message: Message) -> tuple[int, ...]:
        receipt = (message.receipt,)
        return receipt if delay_of is None else (*receipt, delay_of(message))

    args: list[Arg] = []
    for head, run in groupby(messages, head_of):
        keys = [message.key for message in run]
        args += (*head, len(keys), *keys)
    return args


def _settle(
    spec: QueueSpec,
    verb: str,
    head: tuple[Arg, ...],
    messages: Sequence[Message],
    confirm: Confirm | None = None,
    delay_of: Callable[[Message], int] | None = None,
    error: BaseException | None = None,
) -> Operation[int]:
    settled = 0
    refused: list[Message] = []
    yield from require_confirmable(confirm)
    check_own(spec, messages)
    failure_notes.note_error(messages, error, spec.config.record_errors)
    script = scripts.load("nack" if verb in fencing.GIVES_BACK else verb)
    held, given_back = fencing.admit(verb, messages)
    for chunk in failure_notes.chunks(verb, held):
        while chunk:
            # What is acked is gone; all else keeps its order.
            args, order = group(chunk) if verb == "ack" else (runs(chunk, delay_of), chunk)
            if verb in failure_notes.FAILS:
                args += failure_notes.arguments(order)
            request = Request((*head, *args), script=script, resend=True, confirm=confirm)
            reply = yield from fencing.send(spec, verb, request, order)
            if confirm is not None:
                reply, confirmation = reply
                check_confirmed(confirm, confirmation)
            dead = reply.pop() if isinstance(reply[-1], list) else ()
            reply, chunk = split_remaining(reply, order)
            settled += reply[0]
            refused += fencing.note_reply(verb, order, reply[1:], request, len(chunk))
            for position in dead:
                order[position - 1].dead = True
            if verb == "reject":
                for message in order:
                    message.dead = fencing.was_settled(message, verb)
    fencing.raise_if_refused(_where(spec), verb, refused, given_back, settled, _name_of)
    return settled


def check_own(spec: QueueSpec, messages: Iterable[Message]) -> None:
    """Raise an error for a message of another queue: its receipt would match nothing here."""
    name = spec.name
    for message in messages:
        if type(message) is not Message:
            check_message(message)
        if message.queue != name:
            raise ConfigurationError(
                f"message {message.id!r} was taken from queue {message.queue!r},"
                f" not {spec.name!r}: settle it there"
            )


def check_message(message: Any) -> None:
    """Raise an error unless this is a message, not, say, a reason passed without its keyword."""
    if not isinstance(message, Message):
        raise ConfigurationError(
            f"settle takes messages that pop returned, not {type(message).__name__}: pass them one"
            " by one, or as *messages, and a reason, a delay or a timeout by its name, as in"
            " reject(message, reason='no such order')"
        )


def _where(spec: QueueSpec) -> str:
    return f"queue {spec.name!r}"


def _name_of(message: Message) -> str:
    return message.id


def _delay_us(delay: float) -> int:
    return 0 if delay == 0 else microseconds(delay, "delay", LATEST / 1_000_000)
