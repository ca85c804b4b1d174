"""The shards of a sharded queue: their names, and the record of how many there are."""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from redis.exceptions import NoPermissionError

from ackq import scripts
from ackq.config import check_integer
from ackq.core.call import Keys, call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.names import check_text
from ackq.errors import ConfigurationError, QueueNameError
from ackq.membership.operations import MAX_PARTITIONS

#: The slots of a cluster.
SLOTS = 16384
#: The format of a new queue's shards, and what stands for that of a queue with groups.
NEWEST, GROUPED = 2, 3
#: The fields of the record that only a queue with groups has.
_SETTINGS = ("kind", "in_flight", "rate", "on_dead", "max_in_flight", "field", "changed")
_WHOLE = re.compile(r"\{([^{}]+)\}:all")


@dataclass(frozen=True, slots=True)
class Shards:
    """What is known of a queue's shards.

    Attributes:
        format: 1: ``{jobs:0}``, ``{jobs:1}``, ..., wherever these are; 2: evenly over all slots;
            3: also, and no two numbers of shards have a name in common.
        number: how many there are.
        version: counts the changes of the record; 0 for format 1.
        draining: former numbers, whose shards may still have messages.
        groups: the record of the queue's groups; empty if it has none.
        changed: whether its limits were changed since it was created.
    """

    format: int
    number: int
    version: int = 0
    draining: tuple[int, ...] = ()
    groups: str = ""
    changed: bool = False

    def names(self, name: str) -> tuple[str, ...]:
        """Return the names of the shards of queue ``name``, in order."""
        return shard_names(name, self.number, self.format)

    def draining_names(self, name: str) -> tuple[str, ...]:
        """Return the names of former shards that may still have messages."""
        numbers = self.draining
        former = [each for number in numbers for each in shard_names(name, number, self.format)]
        if self.format == GROUPED:
            return tuple(former)
        return tuple(sorted(set(former).difference(self.names(name))))


def whole(name: str) -> str:
    """Return the name under which sharded queue ``name`` keeps what concerns all of its shards.

    These are the list of its workers and its rate limit: keys as those of a list queue of this
    name, which has no messages.
    """
    return f"{{{name}}}:all"


def whole_of(queue: str) -> str | None:
    """Return the sharded queue whose `whole` has the name ``queue``, or None."""
    matched = _WHOLE.fullmatch(queue)
    return matched[1] if matched else None


def is_shard(queue: str, name: str) -> bool:
    """Return whether ``queue`` may be a shard of sharded queue ``name``."""
    return re.fullmatch(rf"\{{{re.escape(name)}:\d+(\.\d+)?\}}", queue) is not None


def check_shards(name: str, shards: int | None) -> None:
    """Raise an error if a sharded queue cannot have this name or number of shards.

    Raises:
        ConfigurationError: ``shards`` is out of range.
        QueueNameError: the name contains braces.
    """
    if shards is not None:
        check_integer(shards, "shards", 1, MAX_PARTITIONS)
    check_text(name)
    if not name or "{" in name or "}" in name:
        raise QueueNameError(
            f"sharded queue name {name!r} is text without braces: each shard gets its own"
        )


@lru_cache(maxsize=64)
def shard_names(name: str, shards: int, format: int = NEWEST) -> tuple[str, ...]:
    """Return the queues' names, each its own hash tag.

    In format 2, shard i of n is ``{jobs:i.k}`` with the least k from 0 for which its slot lies in
    part i of n equal parts of all slots. So nodes with equal ranges of slots have equal numbers
    of shards if n is a multiple of the number of nodes. In format 3, k is the least of n, n + 1024,
    n + 2048, .... In format 1 it is ``{jobs:i}``.

    Raises:
        ConfigurationError: ``shards`` is out of range.
        QueueNameError: the name contains braces.
    """
    check_shards(name, shards)
    if format == 1:
        return tuple(f"{{{name}:{number}}}" for number in range(shards))
    suffixes = (0, 1) if format == NEWEST else (shards, MAX_PARTITIONS)
    return tuple(_evenly(name, number, shards, *suffixes) for number in range(shards))


def _evenly(name: str, number: int, shards: int, suffix: int, step: int) -> str:
    tag = f"{name}:{number}."
    start = crc_hqx(tag.encode(), 0)
    while crc_hqx(b"%d" % suffix, start) % SLOTS * shards // SLOTS != number:
        suffix += step
    return f"{{{tag}{suffix}}}"


def recorded_shards(name: str) -> Operation[Shards | None]:
    """Return what is recorded, for those who may only read; None if nothing is known."""
    record = f"{{{name}}}:shards"
    format = yield from _field(record, "format")
    if format is None:
        shares = yield from _field(f"{{{name}}}:group", "shares")
        known = shares is not None and shares.isdigit() and int(shares) <= MAX_PARTITIONS
        return Shards(1, int(shares)) if shares and known else None
    number = yield from _field(record, "shards")
    draining = yield from _field(record, "draining")
    if format != b"%d" % NEWEST or not number:
        return None
    former, settings = tuple(map(int, (draining or b"").split())), []
    for field in _SETTINGS if (yield from _field(record, "kind")) else ():
        settings.append((yield from _field(record, field)) or b"")
    return _known(int(number), 0, former, settings)


def _field(key: str, field: str) -> Operation[bytes | None]:
    try:
        return (yield Request((b"HGET", key, field), resend=True))  # type: ignore[no-any-return]
    except NoPermissionError:
        return None


def read(
    name: str, create: int = 0, settings: Mapping[str, str] = MappingProxyType({})
) -> Operation[Shards | None]:
    """Return what is recorded of the shards of queue ``name``.

    Args:
        name: text without braces.
        create: create the record with this number of shards if nothing is known. Defaults to 0.
        settings: the record of the groups of a queue that is created. Defaults to none.

    Returns:
        None if nothing is known and ``create`` is 0.

    Raises:
        ConfigurationError: a later release of ackq wrote the record.
    """
    keys = (f"{{{name}}}:shards".encode(), f"{{{name}}}:group".encode())
    args: list[Arg] = [create, *(part for pair in settings.items() for part in pair)]
    request = Request((2, *keys, *args), script=scripts.load("sharded/open"), resend=True)
    what = Keys(f"sharded queue {name!r}", dict.fromkeys(keys, "hash"))
    reply = yield from call(what, request)
    if reply[0] == 0:
        return None
    if reply[0] == 1:
        return Shards(1, reply[1])
    if reply[0] != NEWEST:
        raise ConfigurationError(
            f"sharded queue {name!r} has format {reply[0]}, which this release does not know:"
            " upgrade ackq"
        )
    _, number, version, draining, *recorded = reply
    former = tuple(map(int, draining.split()))
    return _known(number, version, former, recorded)


def _known(
    number: int, version: int, draining: tuple[int, ...], settings: Sequence[bytes]
) -> Shards:
    """Return what is known of shards, with groups if their settings are recorded."""
    if settings:
        text, changed = b" ".join(settings[:-1]).decode(), bool(settings[-1])
        return Shards(GROUPED, number, version, draining, f"{NEWEST} {text}", changed)
    return Shards(NEWEST, number, version, draining)
