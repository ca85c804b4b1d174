"""Change the number of shards while producers and consumers work.

The record names the shards in use, and former numbers: their shards are draining. Producers push
to shards in use; consumers take from all. A draining shard that is empty is retired: it refuses
pushes, so that a producer with an old record reads the new one. Each step has a version, so that
a process that was frozen between two steps opens no shard that nobody reads.

With groups, no name is that of a shard of two numbers, and the order of each group survives:

1. The new shards are retired, so that they refuse pushes, and the record names them, and the former
   number as draining.
2. The former shards are closed. Only then the new ones are opened: so whatever a producer knows of
   the change, messages of a group on a new shard were pushed after those on the former ones.
3. The new shards are held until all former ones that may have had messages of their groups are
   sealed, which means that these have nothing but dead letters.

Every client that reads the record in the meantime goes on with these steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.core.call import Keys, call
from ackq.core.effects import Arg, Operation, Request
from ackq.membership.shards import Shards
from ackq.queue.keys import QueueKeys
from ackq.queue.record import CHANGED, fields_of
from ackq.queue.spec import QueueSpec


def change(
    spec: QueueSpec,
    name: str,
    version: int,
    number: int,
    draining: Iterable[int],
    limits: Mapping[str, str] = MappingProxyType({}),
) -> Operation[int]:
    """Change the record of queue ``name``; return its new version, or 0 if ``version`` is old.

    With limits, it is the groups that change, and not the number of shards.
    """
    record = f"{{{name}}}:shards".encode()
    former = " ".join(map(str, sorted(draining)))
    # A second application finds a newer version.
    request = Request(
        (1, record, version, number, former, *(part for pair in limits.items() for part in pair)),
        script=scripts.load("sharded/change"),
        resend=True,
    )
    changed: int = yield from call(Keys(f"sharded queue {name!r}", {record: "hash"}), request)
    return changed


def retire(spec: QueueSpec, version: int) -> Operation[bool]:
    """Close a shard if it is empty, and return whether it is closed."""
    return bool((yield _request("sharded/retire", spec, version)))


def revive(spec: QueueSpec, version: int, changed: bool = False) -> Operation[bool]:
    """Open a shard again, unless it was retired at ``version`` or later; return whether it was.

    With groups, consumers cannot take from it until its `release`.

    Args:
        spec: of the shard.
        version: of the record that names it.
        changed: whether the limits of its groups were changed since the queue was created.
    """
    fields = fields_of(spec.config) if spec.keys.grouped else {}
    if changed:
        fields |= {CHANGED.decode(): "1"}
    settings = [part for pair in fields.items() for part in pair]
    return bool((yield _request("sharded/revive", spec, version, *settings)))


def close(spec: QueueSpec, version: int) -> Operation[bool]:
    """Close a shard of a queue with groups to producers; return whether it is closed."""
    return bool((yield _request("sharded/close", spec, version)))


def seal(spec: QueueSpec) -> Operation[int]:
    """Retire a closed shard that has only dead letters; return 2 if it has these, 1 if it has none.

    Returns 0 if it has other messages.
    """
    sealed: int = yield _request("sharded/seal", spec)
    return sealed


def release(spec: QueueSpec, version: int) -> Operation[bool]:
    """Let consumers take from a shard that was opened by ``version``; return whether it waited."""
    return bool((yield _request("sharded/release", spec, version)))


def _request(script: str, spec: QueueSpec, *args: Arg) -> Request:
    keys = QueueKeys.of(spec.name, grouped=spec.keys.grouped)
    return Request((*keys.passed(script), *args), script=scripts.load(script), resend=True)


def is_retired(spec: QueueSpec) -> Operation[bool]:
    """Return whether a shard is closed."""
    try:
        kind: bytes = yield Request((b"TYPE", spec.keys.ready), resend=True)
    except ResponseError:
        return False
    return kind == b"string"


def is_sealed(spec: QueueSpec) -> Operation[bool]:
    """Return whether this object is for a shard that has only dead letters."""
    yield from ()
    return spec.keys.stage == "sealed"


def parents(shard: int, shards: int, former: int) -> range:
    """Return the former shards that may have had groups of this one.

    A hash that leaves ``shard`` divided by ``shards`` may leave any of these divided by ``former``.
    """
    step = math.gcd(shards, former)
    return range(shard % step, former, step)


def announced(recorded: Shards, number: int) -> set[int]:
    """Return the draining numbers for the time in which ``number`` is prepared."""
    return {*recorded.draining, number}


def switched(recorded: Shards, number: int) -> set[int]:
    """Return the draining numbers once ``number`` is in use."""
    return {*recorded.draining, recorded.number} - {number}
