"""Find the queues whose names match a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ackq.core.names import CLAIM, CLAIMS, SUFFIXES, check_name
from ackq.errors import QueueNameError

if TYPE_CHECKING:
    import redis

#: What a pattern has and a name has not.
WILDCARDS = frozenset("*?")
#: Keys that one SCAN examines.
STEP = 1000
#: The ends of a queue's other keys: its list is missing while no message is ready.
_END = re.compile(rf"(?:{'|'.join(SUFFIXES)}|(?:{CLAIM}|{CLAIMS}).*)$")


def is_pattern(name: str) -> bool:
    """Return whether ``name`` is a pattern: ``*`` is any text, ``?`` any character."""
    return not WILDCARDS.isdisjoint(name)


def check_pattern(pattern: str) -> None:
    """Raise `QueueNameError` if no queue may have a name like ``pattern``."""
    check_name("".join("x" if each in WILDCARDS else each for each in pattern))


def find_queues(client: redis.Redis | redis.RedisCluster, patterns: Iterable[str]) -> list[str]:
    """Return the queues on a server that match one of ``patterns``, in the order of their names.

    Also those that have claimed, leased, delayed or dead messages only.

    Cost: a SCAN of all keys for each pattern.
    """
    matching = {name for pattern in patterns for name in _matching(client, pattern)}
    with client.pipeline(transaction=False) as pipe:
        for name in (names := sorted(matching)):
            pipe.type(name)
        types = zip(names, pipe.execute(), strict=True)
        return [name for name, kind in types if kind in (b"list", b"none")]


def _matching(client: Any, pattern: str) -> Iterator[str]:
    for key in client.scan_iter(match=f"{pattern}*", count=STEP):
        name = _END.sub("", key.decode(errors="replace"))
        if fnmatchcase(name, pattern) and _is_name(name):
            yield name


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except QueueNameError:
        return False
    return True
