"""Find the lists of a source or a sink in Redis: those of sharded queues and of patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ackq.core.names import CLAIM, CLAIMS, SUFFIXES, check_name
from ackq.errors import ConfigurationError, QueueNameError
from ackq.ops.sharded import hides_list, is_sharded
from ackq.sharded import ShardedQueue, operations
from ackq.spark.connection import Connection, retry
from ackq.spark.options import MAX_QUEUES, QUEUES, Reading, Target, is_pattern

if TYPE_CHECKING:
    import redis

#: Keys that one SCAN examines.
STEP = 1000
#: The ends of a queue's other keys: its list is missing while no message is ready.
_END = re.compile(rf"(?:{'|'.join(SUFFIXES)}|(?:{CLAIM}|{CLAIMS}).*)$")


def located(reading: Reading, *, patient: bool = True) -> Reading:
    """Return what to read with the names of all lists; see `found`.

    Args:
        reading: the options of a source.
        patient: retry while Redis is unreachable. Defaults to True.
    """
    timeout = reading.retry_timeout if patient else 0.0
    return replace(reading, target=found(reading.target, reading.connection, timeout))


def found(target: Target, connection: Connection, timeout: float) -> Target:
    """Return a target with the lists of sharded queues and patterns, which Redis knows.

    Args:
        target: the queue, topic or delay queue.
        connection: to Redis.
        timeout: seconds for which to retry while Redis is unreachable, if only the name of a queue
            is known.

    Raises:
        ConfigurationError: a queue has another number of shards, no queue matches the patterns, or
            too many do; or a name is that of a list and of a sharded queue.
    """
    if target.column is not None or target.kind != "queue":
        return target
    if target.lists:
        alone = not target.several
        return retry(lambda: _by_name(target, connection), timeout) if alone else target
    if not target.several:
        return _with_shards(target, connection)
    several = _expanded(target, connection)
    lists = several
    if target.shards is not None:
        named = (_with_shards(replace(target, name=name), connection) for name in several)
        lists = tuple(name for each in named for name in each.lists)
    return replace(target, lists=lists, several=several)


def _by_name(target: Target, connection: Connection) -> Target:
    """Return the target with the shards of the queue, if it is sharded."""
    client = connection.client()
    if not is_sharded(client, target.name):
        return target
    if hides_list(client, target.name):
        raise ConfigurationError(
            f"{target.name!r} is a list and a sharded queue: rename the list, or set 'shards' to"
            " the number of shards to use the sharded queue"
        )
    return _with_shards(target, connection)


def _with_shards(target: Target, connection: Connection) -> Target:
    """Return the target with its shards; `shards` makes them, unless there is a plain list."""
    with closing(ShardedQueue(connection.client(), target.name, target.shards)) as queue:
        is_new = target.shards is not None and queue.execute(operations.read, target.name) is None
        if is_new and hides_list(connection.client(), target.name):
            raise ConfigurationError(
                f"{target.name!r} is a list with messages, and not a sharded queue: leave 'shards'"
                " out, or rename the list first"
            )
        lists = tuple(shard.name for shard in queue.shards())
        recorded = queue.execute(operations.read, target.name)
    if recorded is None:  # of format 1
        return replace(target, lists=lists)
    return replace(target, lists=lists, used=recorded.number, resized=recorded.version > 1)


def _expanded(target: Target, connection: Connection) -> tuple[str, ...]:
    patterns = tuple(filter(is_pattern, target.several))
    if not patterns:
        return target.several
    queues = find_queues(connection.client(), patterns)
    names = tuple(sorted({*queues, *target.several} - {*patterns}))
    if not 1 <= len(names) <= MAX_QUEUES:
        raise ConfigurationError(
            f"option {QUEUES!r}: {len(names)} queues match {target.name!r}, but a source has 1 to"
            f" {MAX_QUEUES}"
        )
    return names


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
