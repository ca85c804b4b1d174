"""The key patterns of a role: the names that its suffixes stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from ackq.membership.operations import GroupKeys
from ackq.membership.shards import whole
from ackq.ops.acl_access import NAMESPACE

#: The keys of a partitioned delay queue as a whole. Its other keys belong to one partition each.
_OF_GROUP = frozenset(f":{field.name}" for field in fields(GroupKeys))
#: The keys that show whether a queue is sharded. Commands, workers and Spark read them.
SHARD_RECORD = (":shards", ":group")


def patterns_of(
    name: str, suffixes: frozenset[str], kind: str, partitions: int | None
) -> list[str]:
    """Return the rules for the keys of queue ``name`` with these suffixes.

    Args:
        name: of the queue; it was checked.
        suffixes: as in `ackq.ops.acl_access`. "=" begins the whole name of a key that belongs to
            no queue.
        kind: of queue.
        partitions: of a delay queue; None if it has none.
    """
    wide = {suffix[:-1] for suffix in suffixes if suffix.count("*") == 1}
    needed = (
        suffix for suffix in suffixes if suffix.count("*") < 2 or not suffix.startswith(tuple(wide))
    )
    return [
        f"~{key}" for suffix in sorted(needed) for key in _keys_of(name, suffix, kind, partitions)
    ]


def _keys_of(name: str, suffix: str, kind: str, partitions: int | None) -> Iterator[str]:
    if suffix.startswith("="):
        yield suffix[1:]
    elif kind == "sharded":
        yield from _of_shards(name, suffix)
    elif kind == "list" and suffix in SHARD_RECORD:
        if "{" not in name:  # otherwise no sharded queue can have the name
            yield f"{{{name}}}{suffix}"
    elif suffix.startswith(NAMESPACE):
        yield name.rpartition(":")[0] + suffix[1:]
    elif partitions is None or suffix in _OF_GROUP:
        yield name + suffix
    else:
        yield from (f"{name}:{number}{suffix}" for number in _below(partitions))


def _of_shards(name: str, suffix: str) -> Iterator[str]:
    """Yield the keys of a sharded queue, whatever its number of shards."""
    if suffix == ":shards":
        yield f"{{{name}}}:shards"
    elif suffix in _OF_GROUP:
        yield from (f"{{{name}}}{suffix}", f"{{{name}}}:[0-9]*{suffix}")
    else:
        yield from (f"{{{name}:[0-9]*}}{suffix}", f"{whole(name)}{suffix}")


def _below(limit: int) -> Iterator[str]:
    """Yield patterns that match the decimal numbers 0 to ``limit`` - 1, and nothing else.

    The server compares keys with patterns one by one, so there are few: five for 1,024 numbers.
    """
    last = str(limit - 1)
    for digits in range(1, len(last)):
        yield _digits(int(digits > 1), 9) + "[0-9]" * (digits - 1)
    for at, digit in enumerate(last):
        is_last = at == len(last) - 1
        first, highest = int(at == 0 and not is_last), int(digit) - (not is_last)
        if first <= highest:
            yield last[:at] + _digits(first, highest) + "[0-9]" * (len(last) - at - 1)


def _digits(first: int, last: int) -> str:
    return str(first) if first == last else f"[{first}-{last}]"
