"""Interpret the replies to settles, using what the lease holder knows about its own settles.

The scripts keep no record of a message that is gone, so their reply does not show whether this
holder settled it or another client did. Each message therefore records how many settles were sent
that may have been applied, and which one certainly was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

from redis.exceptions import RedisError, ResponseError

from ackq.core.call import Spec, call
from ackq.core.effects import Operation, Request
from ackq.errors import AckqError, LeaseLost


class Leased(Protocol):
    """A message of any product that gives leases."""

    lease_lost: bool
    _settled: str
    _settles_sent: int


M = TypeVar("M", bound=Leased)

#: Settles after which the message is delivered again.
GIVES_BACK = frozenset({"nack", "release"})
#: May be sent any number of times: it settles nothing.
EXTEND = "extend"
#: Errors raised for an error reply, or if the server was not reached.
APPLIED_NOTHING = (RedisError, AckqError, OSError)


def admit(verb: str, messages: Sequence[M]) -> tuple[list[M], list[M]]:
    """Return the messages to send, and those refused here, which are marked.

    A message that this holder has settled is not sent again, since another delivery may have the
    same receipt for a while. It is refused if it was returned and the verb is a different one.
    """
    sent = [message for message in messages if not message._settled]
    if len(sent) == len(messages):
        return sent, []
    refused = [each for each in messages if each._settled in GIVES_BACK - {verb}]
    for message in refused:
        message.lease_lost = True
    return sent, refused


def send(spec: Spec, verb: str, request: Request, messages: Sequence[M]) -> Operation[Any]:
    """Send a settle and return its reply. Record first that it may be applied.

    Raises:
        Exception: as in `call`. If the server certainly applied nothing, the record is undone.
    """
    if verb == EXTEND:
        return (yield from call(spec, request))
    for message in messages:
        message._settles_sent += 1
    try:
        # Not through `call`: another generator would cost every pop that acks.
        return (yield request)
    except APPLIED_NOTHING as error:
        if not request.reply_lost:
            for message in messages:
                message._settles_sent -= 1
        if isinstance(error, ResponseError):
            yield from spec.raise_for_reply(error)
        raise


def note_reply(
    verb: str, messages: Sequence[M], positions: Collection[int], request: Request, left: int = 0
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
                message._settles_sent -= 1
    if not positions:
        if verb != EXTEND:
            for message in messages:
                message._settled = verb
        return []
    named = Counter(map(id, messages)) if verb != EXTEND else Counter[int]()
    missed = {abs(position) - 1 for position in positions}
    lost = []
    for position in positions:
        message = messages[abs(position) - 1]
        # An extend that was sent twice settled nothing the first time either.
        repeated = request.reply_lost and verb != EXTEND
        earlier = repeated or message._settles_sent > named[id(message)]
        if position > 0 or not earlier:
            message.lease_lost = True
            lost.append(message)
    if verb != EXTEND:
        for at, message in enumerate(messages):
            if at not in missed:
                message._settled = verb
        if not request.reply_lost:
            for message in lost:
                message._settles_sent -= 1
    return lost


def was_settled(message: Leased, verb: str) -> bool:
    """Return whether this holder certainly settled the message, with this verb."""
    return message._settled == verb


def raise_if_refused(
    where: str,
    verb: str,
    refused: Sequence[M],
    given_back: Sequence[M],
    settled: int,
    name_of: Callable[[M], str],
    cause: str = "the lease ended",
) -> None:
    """Raise `LeaseLost` for messages that the server refused and those that `admit` refused.

    Args:
        where: names the queue.
        verb: the requested operation.
        refused: by the server.
        given_back: refused by `admit`.
        settled: how many were not refused.
        name_of: returns what the error calls a message.
        cause: why a holder loses its lease.
    """
    if not refused and not given_back:
        return
    reasons = []
    if refused:
        reasons.append(
            f"{verb} refused for {_named(refused, name_of)}: {cause}, and the message was, or will"
            " be, delivered again, unless others have settled or deleted it by now. Use a longer"
            " visibility_timeout or extend in time"
        )
    if given_back:
        reasons.append(
            f"{verb} refused for {_named(given_back, name_of)}: this consumer gave the message back"
            f" with {given_back[0]._settled}, so it may be another's by now. Nothing was sent"
        )
    raise LeaseLost(
        f"{where}: {'; '.join(reasons)}; the other {settled} were settled",
        messages=(*refused, *given_back),
        settled=settled,
    )


def _named(messages: Sequence[M], name_of: Callable[[M], str]) -> str:
    names = ", ".join(repr(name_of(message)) for message in messages[:5])
    return names + (f" and {len(messages) - 5} more" if len(messages) > 5 else "")


def split_remaining(reply: list[int], order: Sequence[M]) -> tuple[list[int], Sequence[M]]:
    """Split a reply into its positions and the messages left for the next call.

    A script that moves bodies stops once it has moved enough for one call. Its reply then ends
    with 0 and the position of the first remaining message.
    """
    if len(reply) > 2 and reply[-2] == 0:
        return reply[:-2], order[reply[-1] - 1 :]
    return reply, ()
