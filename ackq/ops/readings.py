"""The figures of queues, whatever their kind, and what belongs to reading them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from redis.exceptions import ReadOnlyError, ResponseError

from ackq.config import QueueConfig
from ackq.core.counters import Counters
from ackq.core.effects import Operation, Request
from ackq.ops.trials import is_denial
from ackq.queue.inspection import total_of_groups
from ackq.queue.messages import GroupCounts, QueueStats

KindName = Literal["list", "sharded", "delay", "topic", "rsmq"]

#: The counts that are reported, if they are known.
COUNTED = (
    "pushed",
    "taken",
    "acked",
    "returned",
    "nacked",
    "released",
    "redriven",
    "dropped",
    "dead_dropped",
)
#: Seconds by which a lease may appear longer than its timeout: timeouts are counted in whole
#: seconds, and each lease has a little jitter.
_ROUNDED = 1.1
S = TypeVar("S")
C = TypeVar("C", bound=Counters)


class Found(NamedTuple):
    """A queue or part: its kind and name. That of an RSMQ queue is ``<namespace>:<queue>``."""

    kind: KindName
    name: str


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts that only grow, since a time. A count that restarts has a later ``since``."""

    #: When counting began, in seconds since the epoch by the server's clock; None: unknown.
    since: float | None
    #: By name, such as "taken" or "acked".
    counts: Mapping[str, int]
    #: Messages that became dead letters, by reason.
    dead: Mapping[str, int] = field(default_factory=dict)
    #: When they were read, by the same clock; None: unknown.
    at: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """The figures of one queue at one instant. None means unknown."""

    kind: KindName
    name: str
    #: Messages that need a consumer now: ready and in flight, without those in claims. For a
    #: topic, the lag of the consumer that is furthest behind.
    backlog: int
    #: Messages by state: ready, in_flight, delayed, dead. RSMQ does not distinguish messages in
    #: flight from delayed ones: they are "hidden". Empty for a topic, which keeps all messages.
    states: Mapping[str, int] = field(default_factory=dict)
    paused: bool | None = None
    #: Seconds since the first lease ended whose message has not been delivered again; 0 if there
    #: is none.
    overdue: float | None = None
    #: Age of the oldest ready message in seconds; 0 if none is ready.
    oldest_ready: float | None = None
    #: How many workers take from the queue.
    workers: int | None = None
    #: The ids of the workers of a shard, which may take from other shards too.
    worker_ids: frozenset[bytes] = frozenset()
    totals: Totals | None = None
    #: Delayed messages that are due soon, if asked for.
    due_soon: int | None = None
    #: How many messages each consumer of a topic is behind.
    lags: Mapping[str, int] = field(default_factory=dict)
    #: The age of the message that a consumer of a topic reads next, in seconds; 0 if it has read
    #: all. Without consumers for which it is unknown.
    lag_seconds: Mapping[str, float] = field(default_factory=dict)
    #: The index of the last message that each consumer of a topic committed.
    positions: Mapping[str, int] = field(default_factory=dict)
    #: Seconds since the lease that ends first was taken or last renewed. Known only while the
    #: consumers of a list queue count, and if one visibility timeout is in use.
    lease_age: float | None = None
    #: All counts of a list queue.
    stats: QueueStats | None = None
    #: How many groups a queue has in each state; None: it has no groups.
    groups: GroupCounts | None = None
    #: The shards of a sharded queue, or the partitions of a delay queue.
    parts: tuple[Reading, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the queue has no messages, or never had any if it is a topic."""
        if self.kind == "topic":
            return not (self.totals and any(self.totals.counts.values()))
        return not any(self.states.values())


@dataclass(frozen=True, slots=True)
class Asked:
    """How to read the figures of a server's queues."""

    #: Let the consumers of list and delay queues count what they do for this many more seconds;
    #: None: do not change that.
    window: float | None
    #: The settings of list queues: their ``time_field``.
    config: QueueConfig
    #: The server's time in µs, which tells which workers are alive; None: unknown.
    now: int | None
    #: List queues whose messages this user may not read. They are noted here, and not tried again.
    unreadable: set[str]
    #: List queues that this user may not read together with others; noted likewise.
    alone: set[str]
    #: Also count the delayed messages that are due within this many seconds.
    due_within: float | None = None


def backlog_of(stats: QueueStats) -> int:
    """Return how many messages of a list queue need a consumer now."""
    return stats.ready + stats.in_flight - stats.claimed


def lease_age(left: float | None, timeouts: Mapping[int, int]) -> float | None:
    """Return the age of the lease that ends first, if only one timeout is in use.

    The age of a renewed lease counts from its last renewal. The receipt gives the time it was
    taken only together with its timeout, which is not stored. Finding the renewed lease that was
    taken first would require a scan of all of them.

    Args:
        left: seconds until that lease ends.
        timeouts: how many messages were taken with each timeout in seconds.
    """
    if left is None or left < 0 or len(timeouts) != 1:
        return None
    (timeout,) = timeouts
    return max(0.0, timeout - left) if 0 < timeout > left - _ROUNDED else None


def watched(
    counters: Callable[[S, float], Operation[C]], spec: S, window: float | None
) -> Operation[C | None]:
    """Read the counters of a queue, and keep them for ``window`` seconds, if this user may."""
    if window is None:
        return None
    try:
        return (yield from counters(spec, window))
    except ResponseError as error:
        # Users that may only count, and replicas, can still show the other figures.
        if is_denial(error) or isinstance(error, ReadOnlyError):
            return None
        raise


def due_soon(key: bytes, unit: int, asked: Asked) -> Operation[int | None]:
    """Count the members of a sorted set whose times come within ``asked.due_within``.

    Args:
        key: of the set.
        unit: how many of its scores are a second.
        asked: None if that was not asked for, or the time is unknown.
    """
    if asked.due_within is None or asked.now is None:
        return None
    now = asked.now / 1_000_000
    low, high = f"({now * unit:.6f}", f"{(now + asked.due_within) * unit:.6f}"
    return (yield Request((b"ZCOUNT", key, low, high), resend=True))  # type: ignore[no-any-return]


def totals_of(counters: Counters) -> Totals:
    """Return what is reported of counters."""
    counts = {name: count for name in COUNTED if (count := getattr(counters, name)) is not None}
    return Totals(counters.since, counts, counters.dead, counters.at)


def merged(
    name: str, kind: KindName, parts: list[Reading], whole: Reading | None = None
) -> Reading:
    """Return the figures of shards or partitions as those of one queue: sums, or the largest.

    Args:
        name: of the queue.
        kind: of the queue.
        parts: the figures of each shard or partition.
        whole: what concerns all shards: the workers of the queue. Others are those of one shard.
    """
    states = [part.states for part in parts]
    soon = [part.due_soon for part in parts if part.due_soon is not None]
    overdue = [part.overdue for part in parts if part.overdue is not None]
    oldest = [part.oldest_ready for part in parts if part.oldest_ready is not None]
    ages = [part.lease_age for part in parts if part.lease_age is not None]
    totals = [part.totals for part in parts if part.totals is not None]
    groups = [part.groups for part in parts if part.groups is not None]
    # A worker may take from several shards.
    listed = [*parts, whole] if whole is not None else parts
    workers = frozenset[bytes]().union(*(reading.worker_ids for reading in listed))
    return Reading(
        kind,
        name,
        sum(part.backlog for part in parts),
        {state: sum(counts.get(state, 0) for counts in states) for state in states[0]},
        all(part.paused for part in parts) if parts[0].paused is not None else None,
        max(overdue, default=None),
        max(oldest) if len(oldest) == len(parts) else None,
        None if any(reading.workers is None for reading in listed) else len(workers),
        workers,
        _sum(totals) if len(totals) == len(parts) else None,
        due_soon=sum(soon) if len(soon) == len(parts) else None,
        lease_age=max(ages, default=None),
        groups=total_of_groups(groups) if groups else None,
        parts=tuple(sorted(parts, key=lambda part: part.name)),
    )


def _sum(parts: list[Totals]) -> Totals:
    names = {name for part in parts for name in part.counts}
    reasons = {reason for part in parts for reason in part.dead}
    since = [part.since for part in parts if part.since is not None]
    at = [part.at for part in parts if part.at is not None]
    return Totals(
        max(since, default=None),
        {
            name: sum(part.counts.get(name, 0) for part in parts)
            for name in COUNTED
            if name in names
        },
        {reason: sum(part.dead.get(reason, 0) for part in parts) for reason in sorted(reasons)},
        max(at, default=None),
    )
