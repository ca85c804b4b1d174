"""Delay queues, partitioned or not, as operators see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ackq.config import QueueConfig
from ackq.core.effects import Operation, Request
from ackq.core.inspection_results import DeadLetter
from ackq.core.io.outside import SYSTEM
from ackq.errors import KeyTypeError
from ackq.membership.operations import MAX_PARTITIONS
from ackq.ops.asking import reply, run
from ackq.ops.kinds.kind import Kind, Opened, Redis, age_of_first, has_type, unless_denied
from ackq.ops.readings import Asked, Found, Reading, due_soon, totals_of, watched

#: The fields of a dead letter.
_DEAD_FIELDS = {b"key", b"body", b"reason", b"count", b"time"}


def _open(client: Redis, name: str, partitions: int | None = None) -> Opened:
    from ackq.delay.client import DelayQueue, PartitionedDelayQueue

    if partitions is None:
        partitions = run(client, name, partitions_of(name))
    if not partitions:
        queue = DelayQueue(client, name)
        return Opened(
            DELAY, name, queue, lambda: (queue,), has_keys=lambda: _has_keys(client, [name])
        )
    names = [f"{name}:{number}" for number in range(partitions)]
    return Opened(
        DELAY,
        name,
        PartitionedDelayQueue(client, name, partitions),
        lambda: [DelayQueue(client, partition) for partition in names],
        divided=True,
        has_keys=lambda: _has_keys(client, names),
    )


def _has_keys(client: Redis, names: Sequence[str]) -> bool:
    from ackq.delay.messages import DelayKeys

    keys = [key for name in names for key in DelayKeys.of(name).all()]
    return bool(run(client, names[0], reply(b"EXISTS", *keys)))


def partitions_of(name: str) -> Operation[int]:
    """Return the number of partitions that the consumers recorded; 0: there are none."""
    request = Request((b"HGET", f"{name}:group", b"shares"), resend=True)
    shares = yield from unless_denied(request)
    number = int(shares) if shares and shares.isdigit() else 0
    return number if number <= MAX_PARTITIONS else 0


def _read(name: str, consumers: Sequence[str], asked: Asked) -> Operation[Reading]:
    from ackq.delay import admin
    from ackq.delay.messages import DelayKeys, DelaySpec

    spec = DelaySpec.plain(name, QueueConfig(), 1.0, SYSTEM)
    stats = yield from admin.stats(spec)
    states = {
        "ready": stats.ready,
        "in_flight": stats.in_flight,
        "delayed": stats.delayed,
        "dead": stats.dead,
    }
    keys = DelayKeys.of(name)
    age = (yield from age_of_first(keys.z, 1.0, asked.now)) if stats.ready else 0.0
    soon = yield from due_soon(keys.z, 1, asked)
    if soon is not None:  # messages in flight are there too, with the ends of their leases
        ending = yield from due_soon(keys.leases, 1_000_000, asked)
        soon = max(0, soon - (ending or 0))
    counted = yield from watched(admin.counters, spec, asked.window)
    return Reading(
        "delay",
        name,
        stats.ready + stats.in_flight,
        states,
        oldest_ready=age,
        totals=totals_of(counted) if counted else None,
        due_soon=soon,
    )


def _look_up(name: str) -> Operation[list[Found]]:
    """Return the queue, and its partitions."""
    waiting = yield from has_type(f"{name}:z", b"zset")
    dead = yield from has_type(f"{name}:dead", b"stream")
    partitions = yield from partitions_of(name)
    parts = [Found("delay", f"{name}:{number}") for number in range(partitions)]
    return [Found("delay", name)] * (waiting or dead) + parts


def _check(name: str) -> Operation[None]:
    """Tell a delay queue from keys of other programs that end in ``:z`` or ``:dead``, too.

    Raises:
        KeyTypeError: it is not a delay queue.
    """
    from ackq.delay.messages import DelayKeys

    keys = DelayKeys.of(name)
    for key, expected in ((keys.z, b"zset"), (keys.h, b"hash"), (keys.dead, b"stream")):
        if (yield Request((b"TYPE", key), resend=True)) not in (expected, b"none"):
            raise KeyTypeError(f"{key.decode()!r} does not have the type of a delay queue's key")
    pair = yield Request((b"EXISTS", keys.z, keys.h), resend=True)
    letters = yield Request((b"XRANGE", keys.dead, b"-", b"+", b"COUNT", 1), resend=True)
    if pair == 1 or any(not {*letter[1][::2]} >= _DEAD_FIELDS for letter in letters):
        raise KeyTypeError(f"{name!r} is not a delay queue: a part of it is missing")


def _dead(name: str) -> bytes:
    from ackq.delay.messages import DelayKeys

    return DelayKeys.of(name).dead


def _letter(entry: Sequence[Any]) -> DeadLetter:
    from ackq.delay.admin import dead_letter_of

    return dead_letter_of(entry)


DELAY = Kind(
    name="delay",
    label="Delay",
    called="a delay queue",
    part="partition",
    does=frozenset({"stats", "peek", "dead", "claims", "purge", "run_now", "find", "search"}),
    looks_up_ids=True,
    refusals={"work": "take its messages with DelayQueue.consume(HANDLER)"},
    open=_open,
    stats=lambda queue: asdict(queue.stats()),
    run_now=lambda queue, key: queue.reschedule(key, delay=0),
    read=_read,
    look_up=_look_up,
    check=_check,
    dead=_dead,
    letter=_letter,
    release_claims=lambda queue, group: queue.release_claims(group),
)
