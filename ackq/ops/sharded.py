"""Which names are those of sharded queues, and the names of their shards."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import redis
from redis.exceptions import ResponseError

from ackq.core.effects import Operation
from ackq.membership.shards import recorded_shards
from ackq.ops.asking import ask, run
from ackq.queue.client import Queue
from ackq.queue.record import settings_of
from ackq.queue.stages import stage_of


def is_sharded(client: redis.Redis | redis.RedisCluster, name: str) -> bool:
    """Return whether ``name`` is a sharded queue whose number of shards is recorded.

    False for a user who may not read the record, and for a queue of format 1.
    Cost: one or two round trips.
    """
    return run(client, f"{{{name}}}", is_recorded(name))


def hides_list(client: redis.Redis | redis.RedisCluster, name: str) -> bool:
    """Return whether there is also a list with the name of a sharded queue, as far as is known."""
    return bool(run(client, name, ask(b"EXISTS", name)))


def groups_of(client: redis.Redis | redis.RedisCluster, name: str) -> dict[str, Any]:
    """Return the settings of `ackq.config.QueueConfig` that are recorded of a sharded queue."""
    known = run(client, f"{{{name}}}", recorded_shards(name))
    return settings_of(known.groups) if known is not None else {}


def at_its_stage(queue: Queue) -> Queue:
    """Return a list queue, with the keys of a former shard if it is one."""
    if queue.config.groups is None or not queue.name.startswith("{"):
        return queue
    stage = queue.execute(stage_of)
    return queue.beside(queue.name, stage=stage or "sealed")


def is_recorded(name: str) -> Operation[bool]:
    """Return whether ``name`` is a sharded queue; see `is_sharded`."""
    if not name or "{" in name or "}" in name:
        return False
    try:
        recorded = yield from recorded_shards(name)
    except ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        return False
    return recorded is not None and recorded.format > 1


def shard_names_of(name: str) -> Operation[list[str]]:
    """Return the names of the shards of sharded queue ``name``; none if there is no such queue."""
    with suppress(ResponseError):  # denied, on another node, or of another type
        known = yield from recorded_shards(name)
        if known is not None:
            return [*known.names(name), *known.draining_names(name)]
    return []
