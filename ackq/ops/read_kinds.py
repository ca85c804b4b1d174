"""Read the figures of one queue, whatever its kind, as operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from redis.exceptions import ResponseError

from ackq.config import QueueConfig
from ackq.core.created import created_at
from ackq.core.effects import Operation, Request
from ackq.delay import admin
from ackq.delay.messages import DelayKeys, DelaySpec
from ackq.errors import KeyTypeError
from ackq.membership.operations import MOST_PARTITIONS
from ackq.membership.shards import recorded_shards, whole
from ackq.ops.read_lists import read_alone
from ackq.ops.readings import Asked, Reading, Totals, due_soon, totals_of, watched
from ackq.ops.search import Found, Kind
from ackq.rsmq import operations as rsmq
from ackq.rsmq.values import RSMQSpec
from ackq.topic.keys import TopicKeys

#: Most places in a topic for which the age of the next message is read.
MOST_AGES = 20
#: Bytes of a topic's message above which its time is not read.
LONGEST_TIMED = 65_536
#: The fields of a delay queue's dead letter.
_DEAD_FIELDS = {b"key", b"body", b"reason", b"count", b"time"}


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


def _delay(name: str, asked: Asked) -> Operation[Reading]:
    spec = DelaySpec.plain(name, QueueConfig(), 1.0)
    stats = yield from admin.stats(spec)
    states = {
        "ready": stats.ready,
        "in_flight": stats.in_flight,
        "delayed": stats.delayed,
        "dead": stats.dead,
    }
    keys = DelayKeys.of(name)
    age = (yield from _age(keys.z, 1.0, asked.now)) if stats.ready else 0.0
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
    states = {
        "ready": found.msgs - found.hiddenmsgs,
        "hidden": found.hiddenmsgs,
        "dead": counted.letters,
    }
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
    positions = {
        consumer: _index(name, place)
        for consumer, place in zip(consumers, found, strict=True)
        if place is not None
    }
    lags = {consumer: max(0, last - position) for consumer, position in positions.items()}
    trimmed = max(0, _index(name, first) - 1)
    totals = Totals(None, {"pushed": last, "dropped": trimmed})
    # Where consumers read next. Most are at few places; of those furthest behind, read the ages.
    after = {each: max(positions[each], trimmed) for each, lag in lags.items() if lag}
    known: dict[int, float] = {}
    for place in sorted({*after.values()})[:MOST_AGES]:
        if (age := (yield from _topic_age(keys, place, asked))) is not None:
            known[place] = age
    ages = {
        each: known[after[each]] if each in after else 0.0
        for each in lags
        if each not in after or after[each] in known
    }
    oldest = known.get(min(after.values())) if after else 0.0
    return Reading(
        "topic",
        name,
        max(lags.values(), default=0),
        oldest_ready=oldest,
        totals=totals,
        lags=lags,
        lag_seconds=ages,
        positions=positions,
    )


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
    "list": read_alone,
    "delay": _delay,
    "rsmq": _rsmq,
}


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
    if "{" not in name and "}" not in name and (shards := (yield from shard_names_of(name))):
        found += [Found("list", each) for each in (whole(name), *shards)]
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
