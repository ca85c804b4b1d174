"""Change the number of shards while producers and consumers work.

The record names the shards in use, and former numbers: their shards are draining. Producers push
to shards in use; consumers take from all. A draining shard that is empty is retired: it refuses
pushes, so that a producer with an old record reads the new one. Each step has a version, so that
a process that was frozen between two steps opens no shard that nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterable

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.core.call import Keys, call
from ackq.core.effects import Operation, Request
from ackq.core.names import HELD_LEFT
from ackq.membership.shards import Shards
from ackq.queue.spec import QueueSpec


def change(
    spec: QueueSpec, name: str, version: int, number: int, draining: Iterable[int]
) -> Operation[int]:
    """Change the record of queue ``name``; return its new version, or 0 if ``version`` is old."""
    record = f"{{{name}}}:shards".encode()
    former = " ".join(map(str, sorted(draining)))
    # A second application finds a newer version.
    request = Request(
        (1, record, version, number, former), script=scripts.load("sharded/change"), resend=True
    )
    changed: int = yield from call(Keys(f"sharded queue {name!r}", {record: "hash"}), request)
    return changed


def retire(spec: QueueSpec, version: int) -> Operation[bool]:
    """Close a shard if it is empty, and return whether it is closed."""
    keys = spec.keys
    all_keys = (
        keys.ready,
        keys.backup,
        keys.context,
        keys.handoff,
        keys.receives,
        keys.extended,
        keys.delayed,
        keys.dead,
        keys.record,
        keys.ready + HELD_LEFT.encode(),
        keys.heldrows,
        keys.paused,
    )
    request = Request(
        (len(all_keys), *all_keys, version), script=scripts.load("sharded/retire"), resend=True
    )
    return bool((yield request))


def revive(spec: QueueSpec, version: int) -> Operation[bool]:
    """Open a shard again, unless it was retired at ``version`` or later; return whether it was."""
    keys = (spec.keys.ready, spec.keys.context)
    request = Request(
        (len(keys), *keys, version), script=scripts.load("sharded/revive"), resend=True
    )
    return bool((yield request))


def is_retired(spec: QueueSpec) -> Operation[bool]:
    """Return whether a shard is closed."""
    try:
        kind: bytes = yield Request((b"TYPE", spec.keys.ready), resend=True)
    except ResponseError:
        return False
    return kind == b"string"


def announced(recorded: Shards, number: int) -> set[int]:
    """Return the draining numbers for the time in which ``number`` is prepared."""
    return {*recorded.draining, number}


def switched(recorded: Shards, number: int) -> set[int]:
    """Return the draining numbers once ``number`` is in use."""
    return {*recorded.draining, recorded.number} - {number}
