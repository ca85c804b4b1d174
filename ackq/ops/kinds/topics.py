"""Topics, as operators see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ackq.core.creation_time import created_at
from ackq.core.effects import Operation, Request
from ackq.errors import KeyTypeError
from ackq.ops.kinds.kind import Kind, Opened, Redis, has_type, unchecked
from ackq.ops.readings import Asked, Found, Reading, Totals

if TYPE_CHECKING:
    from ackq.topic.keys import TopicKeys

#: Most places in a topic for which the age of the next message is read.
MAX_AGES = 20
#: Bytes of a message above which its time is not read.
MAX_TIMED = 65_536


_NO_PLACE = (
    "a topic keeps its messages for all consumers, so none is ready or in flight: ackq topic stats"
    " shows how far each consumer is"
)


def _open(client: Redis, name: str) -> Opened:
    from ackq.topic.client import Topic

    return Opened(TOPIC, name, Topic(client, name), lambda: ())


def _read(name: str, consumers: Sequence[str], asked: Asked) -> Operation[Reading]:
    from ackq.topic.keys import TopicKeys

    keys = TopicKeys.of(name)
    places = [keys.consumer(consumer).place for consumer in consumers]
    newest, first, *values = yield Request((b"MGET", keys.newest, keys.first, *places), resend=True)
    last = _index(name, newest)
    positions = {
        consumer: _index(name, place)
        for consumer, place in zip(consumers, values, strict=True)
        if place is not None
    }
    lags = {consumer: max(0, last - position) for consumer, position in positions.items()}
    trimmed = max(0, _index(name, first) - 1)
    totals = Totals(None, {"pushed": last, "dropped": trimmed})
    # Where consumers read next. Most are at few places; of those furthest behind, read the ages.
    after = {consumer: max(positions[consumer], trimmed) for consumer, lag in lags.items() if lag}
    known: dict[int, float] = {}
    for place in sorted({*after.values()})[:MAX_AGES]:
        if (age := (yield from _age(keys, place, asked))) is not None:
            known[place] = age
    ages = {
        lag: known[after[lag]] if lag in after else 0.0
        for lag in lags
        if lag not in after or after[lag] in known
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


def _age(keys: TopicKeys, after: int, asked: Asked) -> Operation[float | None]:
    """Return the age of the message that follows index ``after``."""
    (key,) = keys.messages(after, 1)
    # A body that is cut is no JSON, so its time is unknown.
    body = yield Request((b"GETRANGE", key, 0, MAX_TIMED - 1), resend=True)
    created = created_at(body, asked.config.time_field)
    if asked.now is None or created is None:
        return None
    return max(0.0, asked.now / 1_000_000 - created)


def _index(name: str, value: bytes | None) -> int:
    if value is not None and not value.isdigit():
        raise KeyTypeError(f"topic {name!r}: a key holds {value[:50]!r} and not an index")
    return int(value or 0)


def _look_up(name: str) -> Operation[list[Found]]:
    return [Found("topic", name)] * (yield from has_type(f"{name}:nextIndex", b"string"))


TOPIC = Kind(
    name="topic",
    label="Topic",
    called="a topic",
    part="",
    does=frozenset({"seek"}),
    refusals={
        "find": _NO_PLACE,
        "search": _NO_PLACE,
        "work": "read its messages with Topic.consume(GROUP, N)",
    },
    open=_open,
    stats=lambda topic: {"oldest": topic.oldest(), "newest": topic.newest()},
    read=_read,
    look_up=_look_up,
    check=unchecked,
)
