"""Settle messages, and interpret the replies by what the holder knows about its own settles.

The scripts keep no record of a message that is gone, so their reply does not show whether this
holder settled it or another client did. Each message therefore records how many settles were sent
that may have been applied, and which one certainly was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, TypeVar

from redis.exceptions import RedisError, ResponseError

from ackq import scripts
from ackq.config import Confirm
from ackq.core import failure_notes
from ackq.core.call import Spec
from ackq.core.chunks import SETTLE_CHUNK, settle_chunks
from ackq.core.confirm import check_confirmed, require_confirmable
from ackq.core.effects import Arg, Operation, Request
from ackq.errors import AckqError, ConfigurationError, LeaseLost


@dataclass(frozen=True, slots=True)
class Verb:
    """What a consumer can do with its messages, and how that is sent."""

    name: str
    script: str
    #: Splits messages into those that one call settles; None: by their number and bytes.
    chunks: Callable[[Sequence[Any]], Iterable[Sequence[Any]]] | None = None
    #: Whether the lease ends. If not, the verb may be sent any number of times.
    settles: bool = True
    #: Whether the message is delivered again.
    gives_back: bool = False
    #: Whether the message goes to the dead letters.
    kills: bool = False
    #: Whether the queue records why the message failed.
    notes_errors: bool = False
    #: The attribute of the messages whose positions are in a list at the end of a reply.
    marks: str = "dead"


class Leased:
    """A message of any product that gives leases."""

    #: What errors call the queue, and why a holder loses its lease.
    kind: ClassVar[str]
    cause: ClassVar[str] = "the lease ended"

    __slots__ = (
        "body",
        "dead",
        "failure",
        "lease_expires_at",
        "lease_lost",
        "queue",
        "receipt",
        "receive_count",
        "settled_by",
        "settles_sent",
    )

    queue: str
    body: bytes
    receipt: int
    receive_count: int
    lease_expires_at: float
    lease_lost: bool
    dead: bool
    #: Why this delivery failed, as a nack or reject stores it; see `ackq.core.failure`.
    failure: bytes
    #: The verb of the settle that was certainly applied.
    settled_by: Verb | None
    #: How many settles were sent that may have been applied.
    settles_sent: int

    @property
    def label(self) -> str:
        """What errors call the message."""
        raise NotImplementedError

    @property
    def maybe_settled(self) -> bool:
        """Whether an earlier request of this holder may have settled a message that was refused.

        The reply to that request was lost, and the same lease key is in use again: by the same
        message, or by another one with its id.
        """
        return self.lease_lost and self.settles_sent > 0


M = TypeVar("M", bound=Leased)


def is_several(given: object) -> bool:
    """Return whether a settling method was given a list or another iterable of messages."""
    if hasattr(given, "lease_lost"):  # a topic's batch is one of them, and a sequence
        return False
    return isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)


def unpacked(given: Iterable[Any]) -> list[Any]:
    """Return the arguments of a settling method, those in lists or other iterables one by one."""
    listed: list[Any] = []
    for argument in given:
        listed += unpacked(argument) if is_several(argument) else (argument,)
    return listed


def not_leased(
    given: object, method: str, taken_by: str = "pop", kinds: str = "messages"
) -> ConfigurationError:
    """Return the error for an argument of a settling method that nothing returned under a lease.

    Args:
        given: the argument.
        method: that was called.
        taken_by: the method that returns such messages.
        kinds: what these are, in the plural.
    """
    if given is None:
        why = f"{taken_by} returns None if there is nothing to take, so check for that first"
    elif isinstance(given, Awaitable):
        why = f"await {taken_by} first"
    else:
        why = (
            f"pass the {kinds} themselves, and a reason, a delay or a timeout by its name, as in"
            " reject(message, reason='…')"
        )
    return ConfigurationError(
        f"{method} takes {kinds} that {taken_by} returned, not {_name_of(given)}: {why}"
    )


def _name_of(given: object) -> str:
    return "None" if given is None else f"a {type(given).__name__}"


#: Errors raised for an error reply, or if the server was not reached.
APPLIED_NOTHING = (RedisError, AckqError, OSError)


def settle(
    spec: Spec,
    verb: Verb,
    messages: Sequence[M],
    arguments: Callable[[Sequence[M]], tuple[tuple[Arg, ...], Sequence[M]]],
    confirm: Confirm | None = None,
    most: int = SETTLE_CHUNK,
) -> Operation[int]:
    """Settle messages in as many calls as they need, and return how many were settled.

    Args:
        spec: of their queue.
        verb: the requested operation.
        messages: of this queue.
        arguments: returns the arguments of a call that settles some messages, and the messages in
            the order in which the call names them.
        confirm: the replicas or disks to wait for.
        most: messages in a call, if the verb does not split them itself.

    Raises:
        LeaseLost: some messages were refused; the others are settled.
    """
    settled = 0
    refused: list[M] = []
    if confirm is not None:
        yield from require_confirmable(confirm)
    held, given_back = admit(verb, messages)
    for chunk in verb.chunks(held) if verb.chunks else settle_chunks(held, most):
        while chunk:
            args, order = arguments(chunk)
            if verb.notes_errors:
                args = (*args, *failure_notes.arguments(order))
            request = Request(args, scripts.load(verb.script), resend=True, confirm=confirm)
            reply = yield from send(spec, verb, request, order)
            if confirm is not None:
                reply, confirmation = reply
                check_confirmed(confirm, confirmation)
            lease_ends = None if verb.settles else reply.pop(0) / 1_000_000
            marked = reply.pop() if isinstance(reply[-1], list) else ()
            reply, chunk = split_remaining(reply, order)
            settled += reply[0]
            refused += note_reply(verb, order, reply[1:], request, len(chunk))
            for position in marked:
                setattr(order[position - 1], verb.marks, True)
            if verb.kills:
                for message in order:
                    message.dead = message.settled_by == verb
            if lease_ends is not None:
                for message in order:
                    if not message.lease_lost:
                        message.lease_expires_at = lease_ends
    if refused or given_back:
        raise lease_lost(verb, refused, given_back, settled)
    return settled


def admit(verb: Verb, messages: Sequence[M]) -> tuple[Sequence[M], Sequence[M]]:
    """Return the messages to send, and those refused here, which are marked.

    A message that this holder has settled is not sent again, since another delivery may have the
    same receipt for a while. It is refused if it was returned and the verb is a different one.
    """
    for message in messages:
        if message.settled_by is not None:
            break
    else:
        return messages, ()
    sent, refused = [], []
    for message in messages:
        earlier = message.settled_by
        if earlier is None:
            sent.append(message)
        elif earlier.gives_back and earlier != verb:
            message.lease_lost = True
            refused.append(message)
    return sent, refused


def send(spec: Spec, verb: Verb, request: Request, messages: Sequence[M]) -> Operation[Any]:
    """Send a settle and return its reply. Record first that it may be applied.

    Raises:
        Exception: as in `call`. If the server certainly applied nothing, the record is undone.
    """
    recorded = messages if verb.settles else ()
    for message in recorded:
        message.settles_sent += 1
    try:
        return (yield request)
    except APPLIED_NOTHING as error:
        yield from raise_failed(spec, request, recorded, error)


def raise_failed(
    spec: Spec, request: Request, recorded: Iterable[Leased], error: Exception
) -> Operation[NoReturn]:
    """Raise the error of a settle; undo its record if the server certainly applied nothing.

    Args:
        spec: of the queue.
        request: as sent.
        recorded: the messages whose records count this settle.
        error: one of `APPLIED_NOTHING`.
    """
    if not request.reply_lost:
        for message in recorded:
            message.settles_sent -= 1
    if isinstance(error, ResponseError):
        yield from spec.raise_for_reply(error)
    raise error


def note_reply(
    verb: Verb, messages: Sequence[M], positions: Collection[int], request: Request, left: int = 0
) -> list[M]:
    """Record the reply to a settle; mark and return the refused messages.

    Args:
        verb: the requested operation.
        messages: in the order of their keys in the request.
        positions: from 1, of messages not leased by this holder. Negative: the message is gone,
            and refused unless an earlier settle of this holder may have been applied.
        request: the request as sent; it records whether it was sent twice.
        left: how many of the last messages the script left for another call.
    """
    if left:
        messages, unread = messages[:-left], messages[-left:]
        if not request.reply_lost:
            for message in unread:
                message.settles_sent -= 1
    if not positions:
        if verb.settles:
            for message in messages:
                message.settled_by = verb
        return []
    named = Counter(map(id, messages)) if verb.settles else Counter[int]()
    missed = {abs(position) - 1 for position in positions}
    lost = []
    for position in positions:
        message = messages[abs(position) - 1]
        # An extend that was sent twice settled nothing the first time either.
        repeated = request.reply_lost and verb.settles
        earlier = repeated or message.settles_sent > named[id(message)]
        if position > 0 or not earlier:
            message.lease_lost = True
            lost.append(message)
    if verb.settles:
        for at, message in enumerate(messages):
            if at not in missed:
                message.settled_by = verb
        if not request.reply_lost:
            for message in lost:
                message.settles_sent -= 1
    return lost


def lease_lost(
    verb: Verb, refused: Sequence[M], given_back: Sequence[M], settled: int
) -> LeaseLost:
    """Return the error for refused messages.

    Args:
        verb: the requested operation.
        refused: by the server.
        given_back: refused by `admit`.
        settled: how many were not refused.
    """
    first = (*refused, *given_back)[0]
    reasons = []
    if refused:
        reasons.append(
            f"{verb.name} refused for {_named(refused)}: {first.cause}, so the message is delivered"
            " again, unless another client has settled or deleted it. Use a longer"
            " visibility_timeout, or extend the lease in time"
        )
        if unsure := [message for message in refused if message.maybe_settled]:
            reasons.append(
                f"the reply to an earlier request for {_named(unsure)} was lost: if that settled"
                " the message, this error is about its next delivery, or another message of its id"
            )
    if given_back:
        earlier = given_back[0].settled_by
        reasons.append(
            f"{verb.name} refused for {_named(given_back)}: this consumer has returned the message"
            f" with {earlier and earlier.name}, so another one may have it by now. Nothing was sent"
        )
    return LeaseLost(
        f"{first.kind} {first.queue!r}: {'; '.join(reasons)}{others_settled(settled)}",
        messages=(*refused, *given_back),
        settled=settled,
    )


def others_settled(number: int) -> str:
    """Return the end of an error's text: what happened to the messages that were not refused."""
    if not number:
        return ""
    return f". {number} other{'s were' if number > 1 else ' was'} settled"


def _named(messages: Sequence[Leased]) -> str:
    names = ", ".join(repr(message.label) for message in messages[:5])
    return names + (f" and {len(messages) - 5} more" if len(messages) > 5 else "")


def split_remaining(reply: list[int], order: Sequence[M]) -> tuple[list[int], Sequence[M]]:
    """Split a reply into its positions and the messages left for the next call.

    A script that moves bodies stops once it has moved enough for one call. Its reply then ends
    with 0 and the position of the first remaining message.
    """
    if len(reply) > 2 and reply[-2] == 0:
        return reply[:-2], order[reply[-1] - 1 :]
    return reply, ()
