"""A queue over several shards: their names, the shard of a message, and waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import mmh3

from ackq import scripts
from ackq.config import QueueConfig
from ackq.core.call import call
from ackq.core.chunks import chunked
from ackq.core.effects import Operation, Request, Sleep
from ackq.core.encode import Pushable, encode_many
from ackq.core.fencing import unpacked
from ackq.core.outside import Outside
from ackq.core.waits import PAUSED_POLL, block
from ackq.errors import (
    ConfigurationError,
    GroupsMismatch,
    LeaseLost,
    PushAccount,
    UnknownOutcome,
)
from ackq.membership import shards
from ackq.membership.shards import Shards
from ackq.queue import group_names, settle
from ackq.queue.messages import Message, check_message
from ackq.queue.push import account as account_of_one
from ackq.queue.record import fields_of, have_one_field, in_words, settings_of, text_of
from ackq.queue.spec import QueueSpec

#: Longest wait on a shard in seconds, after which a consumer checks its assignment again.
MAX_BLOCK = 1.0

#: Messages with one key go to one shard: one for all, one for each, or a function that returns the
#: key of a message. A message with None may go to any shard.
Key = str | Sequence[str | None] | Callable[[Any], str | None] | None


class Part(NamedTuple):
    """Messages of one call for one shard: their positions in the call, and their bodies."""

    shard: int
    positions: list[int]
    bodies: list[bytes]


def read(spec: QueueSpec, name: str, create: int = 0) -> Operation[Shards | None]:
    """Read what is recorded of queue ``name``, or create it; see `ackq.membership.shards.read`."""
    return shards.read(name, create, fields_of(spec.config) if spec.config.grouped else {})


def check_groups(spec: QueueSpec, name: str, recorded: Shards) -> Operation[None]:
    """Compare the groups of this client with the record of the shards; use changed limits.

    Raises:
        GroupsMismatch: they differ.
    """
    yield from ()
    config, text = spec.config, recorded.groups
    if text == (text_of(config) if config.grouped else ""):
        return
    if text == spec.given or (recorded.changed and have_one_field(config, text)):
        spec.adopt(settings_of(text))
    else:
        known = in_words(settings_of(text))
        raise GroupsMismatch(
            f"sharded queue {name!r} has {known}; this client has {in_words(config.settings())}."
            " Nothing was changed. Producers, too, need the groups: these decide the shard. To have"
            f" other limits, run: ackq groups {name} --in-flight N; to have another field, create"
            " another queue: ackq sharded create --groups",
            recorded=known,
        )


def ack(spec: QueueSpec, messages: Sequence[Message]) -> Operation[int]:
    """Ack messages of one shard, with a take from another one."""
    return settle.ack(spec, messages)


def agreed(name: str, stored: Shards | None, given: int | None) -> Shards:
    """Return what was found, after comparing it with the number that the user gave.

    Raises:
        ConfigurationError: nothing was found, or another number.
    """
    if stored is None:
        raise ConfigurationError(
            f"sharded queue {name!r} does not exist. Create it: ackq sharded create {name}"
            " --shards N, or give the number of shards"
        )
    if given is None or given == stored.number:
        return stored
    if stored.format == 1:
        return Shards(1, given)  # its consumers refuse another number themselves
    raise ConfigurationError(
        f"sharded queue {name!r} has {stored.number} shards, not {given}: leave the number out"
    )


def check_resizable(name: str, recorded: Shards) -> None:
    """Raise an error if the number of shards cannot be changed.

    Raises:
        ConfigurationError: the queue has no record.
    """
    if recorded.format == 1:
        raise ConfigurationError(
            f"sharded queue {name!r} has format 1, in which the number of shards cannot be changed."
            " Create a queue with another name, and let consumers empty this one"
        )


def group_of(name: str, recorded: Shards) -> str:
    """Return the name of the consumer group, one for each number of shards from format 2 on."""
    return f"{{{name}}}" if recorded.format == 1 else f"{{{name}}}:{recorded.number}"


def shard_of(key: str, shards: int) -> int:
    """Return the shard of ``key``: murmur3, x86 32-bit, seed 0, unsigned, by remainder.

    Raises:
        ConfigurationError: the key is not text.
    """
    if not isinstance(key, str):
        raise ConfigurationError(f"key and dedup are text, not {key!r}")
    return mmh3.hash(key.encode(errors="surrogatepass"), 0, signed=False) % shards


def divide(
    messages: Sequence[Pushable],
    key: Key,
    shards: int,
    turns: Iterator[int],
    config: QueueConfig,
    outside: Outside,
    group: str | int | None = None,
) -> tuple[list[Part], list[str]]:
    """Divide messages among the shards; return the parts, to be sent in order, and all ids.

    Messages with a group or a key are one part for each shard. The others are parts of as many as
    one call stores, each whole for one shard, since a call costs as much as many messages.

    Args:
        messages: as in `ackq.Queue.push`.
        key: as in `ackq.sharded.ShardedQueue.push_many`.
        shards: how many there are.
        turns: draws the shard of a part without key, by remainder.
        config: the settings of all shards.
        outside: draws the ids of messages without one.
        group: of all of them. Defaults to None: each has the group that it names, if any.

    Raises:
        InvalidMessage: a message is invalid; nothing was sent.
        MessageTooLarge: one is longer than ``max_body_bytes``; nothing was sent.
        ConfigurationError: a key is not text; nothing was sent.
    """
    field = config.groups.field if config.groups is not None else None
    written = messages
    if field is not None:
        written = [group_names.grouped(message, field, group) for message in messages]
    ids, bodies = encode_many(written, config.max_body_bytes, outside, config.time_field)
    if field is not None and group is not None:
        group_names.check_read(bodies, field)
    unkeyed: Sequence[int] = ()
    keyed: dict[int, list[int]] = {}
    if field is not None:
        groups = [group_names.group_of(body, field) for body in bodies]
        unkeyed, keyed = _by_key(list(map(key_of, groups, _keys(messages, key))), shards)
    elif key is None:
        unkeyed = range(len(bodies))
    elif isinstance(key, str):
        keyed[shard_of(key, shards)] = list(range(len(bodies)))
    else:
        unkeyed, keyed = _by_key(_keys(messages, key), shards)
    parts = [
        Part(shard, positions, [bodies[at] for at in positions])
        for shard, positions in keyed.items()
    ]
    sizes = [len(bodies[at]) for at in unkeyed]
    for chunk in chunked(unkeyed, sizes):
        parts.append(Part(next(turns) % shards, list(chunk), [bodies[at] for at in chunk]))
    return parts, ids


def key_of(group: str | None, key: str | None) -> str | None:
    """Return what decides the shard of a message: its group, or else its key."""
    return key if group is None else group


def _keys(messages: Sequence[Pushable], key: Key) -> Sequence[str | None]:
    """Return the key of each message."""
    if key is None or isinstance(key, str):
        return [key] * len(messages)
    return [key(message) for message in messages] if callable(key) else key


def _by_key(keys: Sequence[str | None], shards: int) -> tuple[list[int], dict[int, list[int]]]:
    """Return the positions of messages without a key, and of the others by shard."""
    unkeyed: list[int] = []
    keyed: dict[int, list[int]] = {}
    for position, key in enumerate(keys):
        if key is None:
            unkeyed.append(position)
        else:
            keyed.setdefault(shard_of(key, shards), []).append(position)
    return unkeyed, keyed


def account(error: Exception, parts: Sequence[Part], turn: int) -> Exception:
    """Return the error to raise after ``error`` ended a push at ``parts[turn]``.

    Its positions are those of the messages in the call.
    """
    before = [position for part in parts[:turn] for position in part.positions]
    own = parts[turn].positions
    after = [position for part in parts[turn + 1 :] for position in part.positions]
    if not isinstance(error, PushAccount):
        return account_of_one(error, before, own, after)
    error.account(
        before + [own[position] for position in error.stored_positions],
        [own[position] for position in error.unknown_positions],
        [own[position] for position in error.not_stored_positions] + after,
    )
    if isinstance(error, UnknownOutcome):
        error.stored = len(error.stored_positions)
    return error


def by_queue(given: object, method: str) -> dict[str, list[Message]]:
    """Group messages, those in lists too, by the queue that they were taken from.

    Raises:
        ConfigurationError: an argument is not a message.
    """
    grouped: dict[str, list[Message]] = {}
    for message in unpacked((given,)):
        check_message(message, method)
        grouped.setdefault(message.queue, []).append(message)
    return grouped


def raise_lost(errors: Sequence[LeaseLost], settled: int) -> None:
    """Raise one error for several shards; ``settled`` counts the settled messages."""
    if errors:
        raise LeaseLost(
            "; ".join(map(str, errors)),
            messages=tuple(message for error in errors for message in error.messages),
            settled=settled,
        )


def closed(name: str, messages: Sequence[Message], settled: int) -> LeaseLost:
    """Return the error for messages of a shard that was closed meanwhile, and mark them."""
    for message in messages:
        message.lease_lost = True
    return LeaseLost(
        f"shard {name!r} has been closed: when the leases of its messages had ended, another client"
        " settled them",
        messages=tuple(messages),
        settled=settled,
    )


class ShardCounts(NamedTuple):
    """What a shard has: ready messages, and seconds until more become ready without a push."""

    ready: int
    paused: bool
    next_event_in: float | None


def pause(spec: QueueSpec) -> Operation[None]:
    """Wait until a shard may be open."""
    yield Sleep(0.05)


def shard_counts(spec: QueueSpec) -> Operation[ShardCounts]:
    """Return what a shard has, for less than `stats` costs."""
    _, *keys = spec.keys.passed("sharded/look")
    if spec.keys.stage != "open":
        keys.pop()  # nobody waits for it
    request = Request((len(keys), *keys), script=scripts.load("sharded/look"), resend=True)
    ready, paused, event = yield from call(spec, request)
    return ShardCounts(ready, bool(paused), event / 1_000_000 if event >= 0 else None)


def wait(spec: QueueSpec, timeout: float, counts: ShardCounts | None) -> Operation[bool]:
    """Wait until the shard may have a message, without taking one.

    A message that arrives is moved to the hand-off list, the front of the queue, where any
    consumer can take it. This waits only if both lists are empty and the queue is not paused;
    otherwise it would move the backlog there one by one.

    Args:
        spec: the shard.
        timeout: in seconds.
        counts: what it had a moment ago; None if that is unknown.

    Returns:
        Whether there is a message.
    """
    if counts is None:
        counts = yield from shard_counts(spec)
    if counts.paused:
        yield Sleep(min(timeout, PAUSED_POLL))
        return False
    if counts.ready:
        return True
    block_limit = min(spec.block_limit, timeout)
    if counts.next_event_in is not None:
        block_limit = min(block_limit, counts.next_event_in)
    reply = yield from block(spec, spec.keys.wait(block_limit), block_limit)
    return isinstance(reply, bytes)
