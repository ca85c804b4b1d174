"""Read the figures of one queue, whatever its kind, as operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field

from redis.exceptions import ReadOnlyError, ResponseError

from ackq.config import QueueConfig
from ackq.core.effects import Operation, Request
from ackq.delay import admin
from ackq.delay.messages import DelayKeys, DelaySpec
from ackq.errors import KeyTypeError, PopFromMismatch
from ackq.membership.operations import MOST_PARTITIONS
from ackq.ops.search import Found, Kind
from ackq.ops.trials import is_denial
from ackq.queue import inspection
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import QueueCounters, QueueStats
from ackq.queue.spec import QueueSpec
from ackq.rsmq import operations as rsmq
from ackq.rsmq.values import RSMQSpec
from ackq.topic.keys import TopicKeys

#: The counts of a list queue that are reported, if they are known.
COUNTED = ("pushed", "taken", "acked", "returned", "nacked", "released", "redriven", "dropped")
#: Seconds by which a lease may appear longer than its timeout: timeouts are counted in whole
#: seconds, and each lease has a little jitter.
_ROUNDED = 1.1
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
    totals: Totals | None = None
    #: How many messages each consumer of a topic is behind.
    lags: Mapping[str, int] = field(default_factory=dict)
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


def read(
    found: Found, consumers: Iterable[str], window: float | None, now: int | None
) -> Operation[Reading]:
    """Return the figures of a queue.

    Args:
        found: its kind and name.
        consumers: those of a topic, whose lags are read.
        window: let the consumers of a list queue count what they do for this many more seconds;
            None: do not change that.
        now: the server's time in µs, which tells which workers are alive; None: unknown.

    Raises:
        KeyTypeError: a key of that name does not belong to a queue of that kind.
    """
    if found.kind == "topic":
        return (yield from _topic(found.name, sorted(consumers)))
    if found.kind == "list":
        return (yield from _list(found.name, window, now))
    return (yield from _OTHERS[found.kind](found.name))


def _list(name: str, window: float | None, now: int | None) -> Operation[Reading]:
    spec = QueueSpec(name, QueueKeys.of(name), QueueConfig())
    try:
        stats = yield from inspection.stats(spec)
    except PopFromMismatch:
        config = QueueConfig(pop_from="left")
        spec = QueueSpec(name, QueueKeys.of(name, "left"), config)
        stats = yield from inspection.stats(spec)
    counted = (yield from _counters(spec, window)) if window else None
    return Reading(
        "list", name, backlog_of(stats), _states(stats), stats.paused, _overdue(stats),
        workers=(yield from _workers(spec, now)),
        totals=_totals(counted) if counted else None,
        lease_age=lease_age(stats.lease_ends_in, counted.timeouts if counted else {}),
        stats=stats,
    )  # fmt: skip


def _workers(spec: QueueSpec, now: int | None) -> Operation[int | None]:
    """Count the workers whose heartbeats have not ended."""
    if now is None:
        return None
    seen, _, _ = spec.keys.workers
    try:
        return (yield Request((b"ZCOUNT", seen, f"({now}", b"+inf"), resend=True))  # type: ignore[no-any-return]
    except ResponseError:  # the user may not look, or the key is of another type
        return None


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


def _counters(spec: QueueSpec, window: float) -> Operation[QueueCounters | None]:
    try:
        return (yield from inspection.counters(spec, window))
    except ResponseError as error:
        # Users that may only count, and replicas, can still show the other figures.
        if is_denial(error) or isinstance(error, ReadOnlyError):
            return None
        raise


def _totals(found: QueueCounters) -> Totals:
    fields = asdict(found)
    counts = {name: fields[name] for name in COUNTED if fields.get(name) is not None}
    return Totals(found.since, counts, fields.get("dead", {}), found.at)


def _delay(name: str) -> Operation[Reading]:
    stats = yield from admin.stats(DelaySpec.plain(name, QueueConfig(), 1.0))
    states = {"ready": stats.ready, "in_flight": stats.in_flight, "delayed": stats.delayed,
              "dead": stats.dead}  # fmt: skip
    return Reading("delay", name, stats.ready + stats.in_flight, states)


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
            raise KeyTypeError(f"{key.decode()!r} has not the type of a delay queue's key")
    pair = yield Request((b"EXISTS", keys.z, keys.h), resend=True)
    letters = yield Request((b"XRANGE", keys.dead, b"-", b"+", b"COUNT", 1), resend=True)
    if pair == 1 or any(not {*letter[1][::2]} >= _DEAD_FIELDS for letter in letters):
        raise KeyTypeError(f"{found.name!r} is not a delay queue: a part of it is missing")


def _rsmq(name: str) -> Operation[Reading]:
    namespace, _, queue = name.rpartition(":")
    spec = RSMQSpec(namespace)
    found = yield from rsmq.attributes(spec, queue)
    dead = yield Request((b"XLEN", spec.keys(queue).dead), resend=True)
    states = {"ready": found.msgs - found.hiddenmsgs, "hidden": found.hiddenmsgs, "dead": dead}
    totals = Totals(found.created, {"pushed": found.totalsent, "taken": found.totalrecv})
    return Reading("rsmq", name, found.msgs, states, totals=totals)


def _topic(name: str, consumers: list[str]) -> Operation[Reading]:
    keys = TopicKeys.of(name)
    places = [keys.consumer(each).place for each in consumers]
    newest, *found = yield Request((b"MGET", keys.newest, *places), resend=True)
    last = _index(name, newest)
    lags = {consumer: max(0, last - _index(name, place))
            for consumer, place in zip(consumers, found, strict=True) if place is not None
            }  # fmt: skip
    totals = Totals(None, {"pushed": last})
    return Reading("topic", name, max(lags.values(), default=0), totals=totals, lags=lags)


def _index(name: str, value: bytes | None) -> int:
    if value is not None and not value.isdigit():
        raise KeyTypeError(f"topic {name!r}: a key holds {value[:50]!r} and not an index")
    return int(value or 0)


_OTHERS: dict[str, Callable[[str], Operation[Reading]]] = {"delay": _delay, "rsmq": _rsmq}


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
    for group, kind, part in ((f"{{{name}}}", "list", "{%s:%d}"), (name, "delay", "%s:%d")):
        if "{" in name and kind == "list":
            continue
        request = Request((b"HGET", f"{group}:group", b"shares"), resend=True)
        shares = yield from _unless_denied(request)
        if shares and shares.isdigit() and int(shares) <= MOST_PARTITIONS:
            found += [Found(kind, part % (name, each)) for each in range(int(shares))]
    return [*dict.fromkeys(found)]


def _unless_denied(request: Request) -> Operation[bytes | None]:
    try:
        return (yield request)  # type: ignore[no-any-return]
    except ResponseError:
        # The user is not there for such a queue, the key is on another node, or has another type.
        return None


def merged(name: str, kind: Kind, parts: list[Reading]) -> Reading:
    """Return the figures of shards or partitions as those of one queue: sums, or the largest."""
    states = [each.states for each in parts]
    overdue = [each.overdue for each in parts if each.overdue is not None]
    oldest = [each.oldest_ready for each in parts if each.oldest_ready is not None]
    ages = [each.lease_age for each in parts if each.lease_age is not None]
    totals = [each.totals for each in parts if each.totals is not None]
    return Reading(
        kind,
        name,
        sum(each.backlog for each in parts),
        {state: sum(each.get(state, 0) for each in states) for state in states[0]},
        all(each.paused for each in parts) if parts[0].paused is not None else None,
        max(overdue, default=None),
        max(oldest) if len(oldest) == len(parts) else None,
        # A worker of a sharded queue takes from some of its shards, so these cannot be added.
        None,
        _sum(totals) if len(totals) == len(parts) else None,
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
