"""List queues and sharded queues, as operators see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

from redis.exceptions import NoPermissionError, ResponseError

from ackq.config import PopFrom
from ackq.core.effects import Operation
from ackq.membership.shards import whole
from ackq.ops.kinds.kind import MAX_BODY_BYTES, Kind, Opened, Redis, Verb, unchecked
from ackq.ops.read_lists import read_alone
from ackq.ops.readings import Asked, Found, Reading
from ackq.ops.sharded import at_its_stage, shard_names_of
from ackq.ops.trials import is_denial
from ackq.queue import claims, inspection, record
from ackq.queue.client import Queue
from ackq.queue.keys import QueueKeys

if TYPE_CHECKING:
    from ackq.sharded.client import ShardedQueue

#: What the counts of groups are called beside those of messages.
_NAMES_OF_GROUPS = {
    "in_flight": "groups_in_flight",
    "ready": "groups_ready",
    "limited": "groups_limited",
    "stopped": "groups_stopped",
    "turn_for": "groups_turn_for",
}


def open_list(
    client: Redis, name: str, *, pop_from: PopFrom | None = None, **settings: Any
) -> Opened:
    """Open a list queue.

    Args:
        client: of its server.
        name: of the queue.
        pop_from: the end that consumers pop. Defaults to None: as recorded, or right.
        settings: of the queue. Its groups and its limit are as recorded.
    """
    queue = Queue(client, name, max_body_bytes=MAX_BODY_BYTES, **settings)
    known = {"pop_from": "left"} if pop_from == "left" else recorded(queue)
    if pop_from != "right" or "pop_from" not in known:
        queue = queue.with_config(**known)
    queue = at_its_stage(queue)
    return Opened(LIST, name, queue, lambda: (queue,), has_keys=lambda: _has_keys(queue))


def open_sharded(
    client: Redis,
    name: str,
    shards: int | None = None,
    *,
    pop_from: PopFrom | None = None,
    **settings: Any,
) -> Opened:
    """Open a sharded queue, which is created if ``shards`` are given; see `open_list`."""
    from ackq.sharded import operations
    from ackq.sharded.client import ShardedQueue

    settings["max_body_bytes"] = MAX_BODY_BYTES
    queue = ShardedQueue(client, name, shards, **settings)
    known = queue.execute(operations.read, name)
    changes: dict[str, Any] = {}
    if known is not None and known.groups and "groups" not in settings:
        changes = record.settings_of(known.groups)
    elif (pop_from or recorded(queue.shards()[0]).get("pop_from")) == "left":
        changes["pop_from"] = "left"
    if changes:
        with queue:
            queue = queue.with_config(**changes)
    return Opened(SHARDED, name, queue, queue.shards, divided=True)


def _has_keys(queue: Queue) -> bool:
    return bool(queue.execute(inspection.has_keys))


def recorded(queue: Queue) -> dict[str, Any]:
    """Return the settings of a queue that are recorded: its end, or its groups and its limit."""
    try:
        return queue.execute(lambda spec: record.recorded(spec.keys))
    except NoPermissionError:
        return {}


def _stats(queue: Queue | ShardedQueue) -> dict[str, Any]:
    counts = asdict(queue.stats())
    groups = counts.pop("groups") or {}
    named = {_NAMES_OF_GROUPS.get(name, name): number for name, number in groups.items()}
    return counts | {"oldest_ready": _oldest_ready(queue)} | named


def _oldest_ready(queue: Queue | ShardedQueue) -> float | None:
    try:
        return queue.oldest_ready()
    except ResponseError as error:
        if is_denial(error):  # the user may count, but read no message
            return None
        raise


def _release_claims(queue: Queue, group: str) -> int:
    timeout = 1.0  # which a release does not look at
    return queue.execute(lambda spec: claims.release(claims.Group(spec, group, timeout)))


def _read(name: str, consumers: Sequence[str], asked: Asked) -> Operation[Reading]:
    return read_alone(name, asked)


def _look_up(name: str) -> Operation[list[Found]]:
    """Return the list itself: one that is empty has no keys."""
    yield from ()
    return [Found("list", name)]


def _look_up_shards(name: str) -> Operation[list[Found]]:
    shards = [] if "{" in name or "}" in name else (yield from shard_names_of(name))
    return [Found("list", shard) for shard in (whole(name), *shards)] if shards else []


LIST = Kind(
    name="list",
    label="List",
    called="a list queue",
    part="",
    does=frozenset(get_args(Verb)) - {"seek"},
    open=open_list,
    stats=_stats,
    read=_read,
    look_up=_look_up,
    check=unchecked,
    dead=lambda name: QueueKeys.of(name).dead,
    letter=inspection.dead_letter_of,
    run_now=lambda queue, entry: queue.run_now(entry),
    keeps_canceled=True,
    release_claims=_release_claims,
)
SHARDED = Kind(
    name="sharded",
    label="Sharded",
    called="a sharded queue",
    part="shard",
    does=LIST.does - {"claims", "pop", "run_now", "schedules", "workers"},
    open=open_sharded,
    stats=_stats,
    read=_read,
    look_up=_look_up_shards,
    check=unchecked,
)
