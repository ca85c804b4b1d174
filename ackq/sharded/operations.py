"""A queue over several shards: their names, the shard of a message, and waiting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import mmh3

from ackq.config import check_integer
from ackq.core.effects import Operation, Sleep
from ackq.core.encode import encode_many
from ackq.core.waiting import PAUSED_POLL, block
from ackq.errors import ConfigurationError, LeaseLost, PushAccount, QueueNameError, UnknownOutcome
from ackq.membership.operations import MOST_PARTITIONS
from ackq.queue import inspection
from ackq.queue.messages import Message, QueueStats
from ackq.queue.push import account as account_of_one
from ackq.queue.settle import check_message
from ackq.queue.spec import QueueSpec

#: Longest wait on a shard in seconds, after which a consumer checks its assignment again.
BLOCK_LIMIT = 1.0


class Dealt(NamedTuple):
    """The messages for one shard: their bodies, and their positions in the call."""

    positions: list[int]
    bodies: list[bytes]


def shard_names(name: str, shards: int) -> tuple[str, ...]:
    """Return the queues' names: ``{jobs:0}``, ``{jobs:1}``, ..., each its own hash tag.

    Raises:
        ConfigurationError: ``shards`` is out of range.
        QueueNameError: the name contains braces.
    """
    check_integer(shards, "shards", 1, MOST_PARTITIONS)
    if not isinstance(name, str) or not name or "{" in name or "}" in name:
        raise QueueNameError(
            f"sharded queue name {name!r} is text without braces: each shard gets its own"
        )
    return tuple(f"{{{name}:{number}}}" for number in range(shards))


def shard_of(key: str, shards: int) -> int:
    """Return the shard of ``key``: murmur3, x86 32-bit, seed 0, unsigned, by remainder.

    Raises:
        ConfigurationError: the key is not text.
    """
    if not isinstance(key, str):
        raise ConfigurationError(f"key and dedup are text, not {key!r}")
    return mmh3.hash(key.encode(errors="surrogatepass"), 0, signed=False) % shards


def spread(
    messages: Iterable[Mapping[str, Any] | bytes],
    shards: int,
    first: int,
    limit: int,
    time_field: str | None,
) -> tuple[dict[int, Dealt], list[str]]:
    """Distribute bodies in turn, beginning with shard ``first``; return them and all ids.

    Raises:
        InvalidMessage: a message is invalid; nothing was sent.
        MessageTooLarge: one is longer than ``limit`` bytes; nothing was sent.
    """
    dealt: dict[int, Dealt] = {}
    ids, bodies = encode_many(messages, limit, time_field)
    for position, body in enumerate(bodies):
        to_shard = dealt.setdefault((first + position) % shards, Dealt([], []))
        to_shard.positions.append(position)
        to_shard.bodies.append(body)
    return dealt, ids


def account(error: Exception, dealt: Mapping[int, Dealt], shard: int) -> Exception:
    """Return the error to raise after ``error`` ended a push over shards, in order, at ``shard``.

    Its positions are those of the messages in the call.
    """
    turn = list(dealt).index(shard)
    parts = [each.positions for each in dealt.values()]
    before, own = list(chain.from_iterable(parts[:turn])), parts[turn]
    after = list(chain.from_iterable(parts[turn + 1 :]))
    if not isinstance(error, PushAccount):
        return account_of_one(error, before, own, after)
    error.account(
        before + [own[each] for each in error.stored_positions],
        [own[each] for each in error.unknown_positions],
        [own[each] for each in error.not_stored_positions] + after,
    )
    if isinstance(error, UnknownOutcome):
        error.stored = len(error.stored_positions)
    return error


def by_queue(messages: Iterable[Message] | Message) -> dict[str, list[Message]]:
    """Group messages by the queue that they were taken from.

    Raises:
        ConfigurationError: an argument is not a message.
    """
    found: dict[str, list[Message]] = {}
    for message in (messages,) if isinstance(messages, Message) else messages:
        check_message(message)
        found.setdefault(message.queue, []).append(message)
    return found


def raise_lost(errors: Sequence[LeaseLost], settled: int) -> None:
    """Raise one error for several shards; ``settled`` counts the settled messages."""
    if errors:
        raise LeaseLost(
            "; ".join(map(str, errors)),
            messages=tuple(message for error in errors for message in error.messages),
            settled=settled,
        )


def total(counts: Sequence[QueueStats]) -> QueueStats:
    """Return the sum of the shards' counts."""
    events = [each.next_event_in for each in counts if each.next_event_in is not None]
    return QueueStats(
        ready=sum(each.ready for each in counts),
        in_flight=sum(each.in_flight for each in counts),
        delayed=sum(each.delayed for each in counts),
        dead=sum(each.dead for each in counts),
        expired=sum(each.expired for each in counts),
        due=sum(each.due for each in counts),
        paused=any(each.paused for each in counts),
        next_event_in=min(events, default=None),
        claimed=sum(each.claimed for each in counts),
    )


def oldest(ages: Sequence[float | None]) -> float | None:
    """Return the greatest of the shards' ages; None if one is unknown."""
    known = [each for each in ages if each is not None]
    return max(known) if len(known) == len(ages) else None


def wait(spec: QueueSpec, timeout: float) -> Operation[None]:
    """Wait until the shard may have a message, without taking one.

    A message that arrives is moved to the hand-off list, the front of the queue, where any
    consumer can take it. This waits only if both lists are empty and the queue is not paused;
    otherwise it would move the backlog there one by one.
    """
    counts = yield from inspection.stats(spec)
    if counts.paused:
        yield Sleep(min(timeout, PAUSED_POLL))
        return
    if counts.ready:
        return
    block_limit = min(spec.block_limit, timeout)
    if counts.next_event_in is not None:
        block_limit = min(block_limit, counts.next_event_in)
    yield from block(spec, spec.keys.wait(block_limit), block_limit)
