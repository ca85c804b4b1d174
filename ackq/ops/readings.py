"""Read the figures of one queue, whatever its kind, as operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from redis.exceptions import ReadOnlyError, ResponseError

from ackq.config import QueueConfig
from ackq.core.counters import Counters
from ackq.core.created import created_at
from ackq.core.effects import Arg, Operation, Request
from ackq.delay import admin
from ackq.delay.messages import DelayKeys, DelaySpec
from ackq.errors import KeyTypeError, PopFromMismatch
from ackq.membership.operations import MOST_PARTITIONS
from ackq.membership.shards import recorded_shards
from ackq.ops.search import Found, Kind
from ackq.ops.trials import is_denial
from ackq.queue import inspection
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import QueueStats
from ackq.queue.spec import QueueSpec
from ackq.rsmq import operations as rsmq
from ackq.rsmq.values import RSMQSpec
from ackq.topic.keys import TopicKeys

#: The counts that are reported, if they are known.
COUNTED = ("pushed", "taken", "acked", "returned", "nacked", "released", "redriven", "dropped",
           "dead_dropped")  # fmt: skip
#: Seconds by which a lease may appear longer than its timeout: timeouts are counted in whole
#: seconds, and each lease has a little jitter.
_ROUNDED = 1.1
#: Most workers of a shard that are counted.
MOST_WORKERS = 1000
S = TypeVar("S")
C = TypeVar("C", bound=Counters)
_SHARD = re.compile(r"\{[^{}]+:\d+(?:\.\d+)?\}")
#: Most places in a topic for which the age of the next message is read.
MOST_AGES = 20
#: Bytes of a topic's message above which its time is not read.
LONGEST_TIMED = 65_536
#: The fields of a delay queue's dead letter.
_DEAD_FIELDS = {b"key", b"body", b"reason", b"count", b"time"}


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts that only grow, since a time. A count that starts anew has a later ``since``."""

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

    kind: Kind
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
    #: Of a shard: the ids of these workers, which may take from other shards too.
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
    #: The keys of list queues by name. Kept from one reading to the next, since it takes time to
    #: name them.
    keys: dict[str, QueueKeys]
    #: Also count the delayed messages that are due within this many seconds.
    due_within: float | None = None


def read(found: Found, consumers: Iterable[str], asked: Asked) -> Operation[Reading]:
    """Return the figures of a queue.

    Args:
        found: its kind and name.
        consumers: those of a topic, whose lags are read.
        asked: what to read, and how.

    Raises:
        KeyTypeError: a key of that name does not belong to a queue of that kind.
    """
    if found.kind == "topic":
        return (yield from _topic(found.name, sorted(consumers), asked))
    return (yield from _OTHERS[found.kind](found.name, asked))


def _list(name: str, asked: Asked) -> Operation[Reading]:
    keys = asked.keys.get(name)
    if keys is None:
        keys = asked.keys[name] = QueueKeys.of(name)
    spec = QueueSpec(name, keys, asked.config)
    try:
        stats = yield from inspection.stats(spec)
    except PopFromMismatch:
        spec = replace(
            spec, keys=QueueKeys.of(name, "left"), config=replace(spec.config, pop_from="left")
        )
        stats = yield from inspection.stats(spec)
    oldest = (yield from _oldest_ready(spec, asked)) if stats.ready else 0.0
    due_soon = yield from _due_soon(spec.keys.delayed, 1_000_000, asked)
    workers, ids = yield from _workers(spec, asked.now)
    counted = yield from _watched(inspection.counters, spec, asked.window)
    return Reading(
        "list", name, backlog_of(stats), _states(stats), stats.paused, _overdue(stats), oldest,
        workers, ids, _totals(counted) if counted else None,
        due_soon=due_soon,
        lease_age=lease_age(stats.lease_ends_in, counted.timeouts if counted else {}),
        stats=stats,
    )  # fmt: skip


def _oldest_ready(spec: QueueSpec, asked: Asked) -> Operation[float | None]:
    if spec.name in asked.unreadable:
        return None
    try:
        return (yield from inspection.oldest_ready(spec))
    except ResponseError as error:
        if not is_denial(error):
            raise
        # The server logs each denial, so do not cause one with each reading.
        asked.unreadable.add(spec.name)
        return None


def _workers(spec: QueueSpec, now: int | None) -> Operation[tuple[int | None, frozenset[bytes]]]:
    """Count the workers whose heartbeats have not ended; of a shard, return their ids as well."""
    if now is None:
        return None, frozenset()
    seen, _, _ = spec.keys.workers
    limits: tuple[Arg, ...] = (seen, f"({now}", b"+inf")
    try:
        if not _SHARD.fullmatch(spec.name):
            return (yield Request((b"ZCOUNT", *limits), resend=True)), frozenset()
        command = (b"ZRANGEBYSCORE", *limits, b"LIMIT", 0, MOST_WORKERS)
        ids = frozenset((yield Request(command, resend=True)))
    except ResponseError:  # the user may not look, or the key is of another type
        return None, frozenset()
    return len(ids), ids


def backlog_of(stats: QueueStats) -> int:
    """Return how many messages of a list queue need a consumer now."""
    return stats.ready + stats.in_flight - stats.claimed


def _overdue(stats: QueueStats) -> float:
    left = stats.lease_ends_in
    return -left if left is not None and left < 0 else 0.0


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


def _watched(
    counters: Callable[[S, float], Operation[C]], spec: S, window: float | None
) -> Operation[C | None]:
    if window is None:
        return None
    try:
        return (yield from counters(spec, window))
    except ResponseError as error:
        # Users that may only count, and replicas, can still show the other figures.
        if is_denial(error) or isinstance(error, ReadOnlyError):
            return None
        raise


def _totals(found: Counters) -> Totals:
    counts = {name: count for name in COUNTED if (count := getattr(found, name)) is not None}
    return Totals(found.since, counts, found.dead, found.at)


def _delay(name: str, asked: Asked) -> Operation[Reading]:
    spec = DelaySpec.plain(name, QueueConfig(), 1.0)
    stats = yield from admin.stats(spec)
    states = {"ready": stats.ready, "in_flight": stats.in_flight, "delayed": stats.delayed,
              "dead": stats.dead}  # fmt: skip
    keys = DelayKeys.of(name)
    age = (yield from _age(keys.z, 1.0, asked.now)) if stats.ready else 0.0
    due_soon = yield from _due_soon(keys.z, 1, asked)
    if due_soon is not None:  # messages in flight are there too, with the ends of their leases
        ending = yield from _due_soon(keys.leases, 1_000_000, asked)
        due_soon = max(0, due_soon - (ending or 0))
    counted = yield from _watched(admin.counters, spec, asked.window)
    return Reading(
        "delay", name, stats.ready + stats.in_flight, states, oldest_ready=age,
        totals=_totals(counted) if counted else None, due_soon=due_soon,
    )  # fmt: skip


def _due_soon(key: bytes, unit: int, asked: Asked) -> Operation[int | None]:
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


def _age(key: bytes, unit: float, now: int | None) -> Operation[float | None]:
    """Return for how many seconds the first message of a sorted set has been ready.

    Args:
        key: of the set. Its scores are the times at which messages are ready.
        unit: of the scores, in seconds.
        now: the server's time in µs; None: unknown.
    """
    first = yield Request((b"ZRANGE", key, 0, 0, b"WITHSCORES"), resend=True)
    if now is None or not first:
        return None
    score = first[0][1] if isinstance(first[0], list) else first[1]  # as in RESP3, or RESP2
    return max(0.0, now / 1_000_000 - float(score) * unit)


def check(found: Found) -> Operation[None]:
    """Tell a delay queue from keys of other programs that end in ``:z`` or ``:dead``, too.

    The keys of the other kinds have rarer names.

    Raises:
        KeyTypeError: it is not a delay queue.
    """
    if found.kind != "delay":
        return
    keys = DelayKeys.of(found.name)
    for key, expected in ((keys.z, b"zset"), (keys.h, b"hash"), (keys.dead, b"stream")):
        if (yield Request((b"TYPE", key), resend=True)) not in (expected, b"none"):
            raise KeyTypeError(f"{key.decode()!r} does not have the type of a delay queue's key")
    pair = yield Request((b"EXISTS", keys.z, keys.h), resend=True)
    letters = yield Request((b"XRANGE", keys.dead, b"-", b"+", b"COUNT", 1), resend=True)
    if pair == 1 or any(not {*letter[1][::2]} >= _DEAD_FIELDS for letter in letters):
        raise KeyTypeError(f"{found.name!r} is not a delay queue: a part of it is missing")


def _rsmq(name: str, asked: Asked) -> Operation[Reading]:
    namespace, _, queue = name.rpartition(":")
    spec = RSMQSpec(namespace)
    found = yield from rsmq.attributes(spec, queue)
    counted = yield from rsmq.counters(spec, queue)
    states = {"ready": found.msgs - found.hiddenmsgs, "hidden": found.hiddenmsgs,
              "dead": counted.letters}  # fmt: skip
    age = (yield from _age(spec.keys(queue).zset, 0.001, asked.now)) if states["ready"] else 0.0
    counts = {"pushed": counted.pushed, "taken": counted.taken, "acked": counted.acked}
    dead = {"max receives": counted.dead} if counted.dead else {}
    totals = Totals(counted.since, counts, dead, counted.at)
    return Reading("rsmq", name, found.msgs, states, oldest_ready=age, totals=totals)


def _topic(name: str, consumers: list[str], asked: Asked) -> Operation[Reading]:
    keys = TopicKeys.of(name)
    places = [keys.consumer(each).place for each in consumers]
    newest, first, *found = yield Request((b"MGET", keys.newest, keys.first, *places), resend=True)
    last = _index(name, newest)
    positions = {consumer: _index(name, place)
                 for consumer, place in zip(consumers, found, strict=True) if place is not None
                 }  # fmt: skip
    lags = {consumer: max(0, last - position) for consumer, position in positions.items()}
    trimmed = max(0, _index(name, first) - 1)
    totals = Totals(None, {"pushed": last, "dropped": trimmed})
    # Where consumers read next. Most are at few places; of those furthest behind, read the ages.
    after = {each: max(positions[each], trimmed) for each, lag in lags.items() if lag}
    known: dict[int, float] = {}
    for place in sorted({*after.values()})[:MOST_AGES]:
        if (age := (yield from _topic_age(keys, place, asked))) is not None:
            known[place] = age
    ages = {each: known[after[each]] if each in after else 0.0
            for each in lags if each not in after or after[each] in known}  # fmt: skip
    oldest = known.get(min(after.values())) if after else 0.0
    return Reading("topic", name, max(lags.values(), default=0), oldest_ready=oldest,
                   totals=totals, lags=lags, lag_seconds=ages, positions=positions)  # fmt: skip


def _topic_age(keys: TopicKeys, after: int, asked: Asked) -> Operation[float | None]:
    """Return the age of the message that follows index ``after``."""
    (key,) = keys.messages(after, 1)
    # A body that is cut is no JSON, so its time is unknown.
    body = yield Request((b"GETRANGE", key, 0, LONGEST_TIMED - 1), resend=True)
    created = created_at(body, asked.config.time_field)
    if asked.now is None or created is None:
        return None
    return max(0.0, asked.now / 1_000_000 - created)


def _index(name: str, value: bytes | None) -> int:
    if value is not None and not value.isdigit():
        raise KeyTypeError(f"topic {name!r}: a key holds {value[:50]!r} and not an index")
    return int(value or 0)


_OTHERS: dict[str, Callable[[str, Asked], Operation[Reading]]] = {
    "list": _list, "delay": _delay, "rsmq": _rsmq,
}  # fmt: skip


def look_up(name: str) -> Operation[list[Found]]:
    """Return what is named ``name``: the kinds of queue that its keys show, shards and partitions.

    A list queue that is empty has no keys, so it is always among them.
    """
    found = [Found("list", name)]
    signs: tuple[tuple[Kind, str, bytes], ...] = (
        ("delay", f"{name}:z", b"zset"),
        ("delay", f"{name}:dead", b"stream"),
        ("topic", f"{name}:nextIndex", b"string"),
        ("rsmq", f"{name}:Q", b"hash"),
    )
    for kind, key, expected in signs:
        if (yield from _unless_denied(Request((b"TYPE", key), resend=True))) == expected:
            found.append(Found(kind, name))
    request = Request((b"HGET", f"{name}:group", b"shares"), resend=True)
    shares = yield from _unless_denied(request)
    if shares and shares.isdigit() and int(shares) <= MOST_PARTITIONS:
        found += [Found("delay", f"{name}:{each}") for each in range(int(shares))]
    if "{" not in name and "}" not in name:
        found += [Found("list", each) for each in (yield from shard_names_of(name))]
    return [*dict.fromkeys(found)]


def shard_names_of(name: str) -> Operation[list[str]]:
    """Return the names of the shards of sharded queue ``name``; none if there is no such queue."""
    with suppress(ResponseError):  # denied, on another node, or of another type
        recorded = yield from recorded_shards(name)
        if recorded is not None:
            return [*recorded.names(name), *recorded.draining_names(name)]
    return []


def _unless_denied(request: Request) -> Operation[bytes | None]:
    try:
        return (yield request)  # type: ignore[no-any-return]
    except ResponseError:
        # The user is not there for such a queue, the key is on another node, or has another type.
        return None


def merged(name: str, kind: Kind, parts: list[Reading]) -> Reading:
    """Return the figures of shards or partitions as those of one queue: sums, or the largest."""
    states = [each.states for each in parts]
    soon = [each.due_soon for each in parts if each.due_soon is not None]
    overdue = [each.overdue for each in parts if each.overdue is not None]
    oldest = [each.oldest_ready for each in parts if each.oldest_ready is not None]
    ages = [each.lease_age for each in parts if each.lease_age is not None]
    totals = [each.totals for each in parts if each.totals is not None]
    # A worker may take from several shards.
    workers = frozenset[bytes]().union(*(each.worker_ids for each in parts))
    return Reading(
        kind,
        name,
        sum(each.backlog for each in parts),
        {state: sum(each.get(state, 0) for each in states) for state in states[0]},
        all(each.paused for each in parts) if parts[0].paused is not None else None,
        max(overdue, default=None),
        max(oldest) if len(oldest) == len(parts) else None,
        None if any(each.workers is None for each in parts) else len(workers),
        workers,
        _sum(totals) if len(totals) == len(parts) else None,
        due_soon=sum(soon) if len(soon) == len(parts) else None,
        lease_age=max(ages, default=None),
        parts=tuple(sorted(parts, key=lambda each: each.name)),
    )


def _sum(parts: list[Totals]) -> Totals:
    names = {name for each in parts for name in each.counts}
    reasons = {reason for each in parts for reason in each.dead}
    since = [each.since for each in parts if each.since is not None]
    at = [each.at for each in parts if each.at is not None]
    return Totals(
        max(since, default=None),
        {name: sum(each.counts.get(name, 0) for each in parts) for name in sorted(names)},
        {reason: sum(each.dead.get(reason, 0) for each in parts) for reason in sorted(reasons)},
        max(at, default=None),
    )


def _states(stats: QueueStats) -> dict[str, int]:
    return {"ready": stats.ready, "in_flight": stats.in_flight, "delayed": stats.delayed,
            "dead": stats.dead}  # fmt: skip
