"""A consumer's position in a topic: subscribe, unsubscribe, seek and lag; newest and oldest."""

from __future__ import annotations

from typing import Literal

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.errors import ConfigurationError, KeyTypeError, NotSubscribed
from ackq.topic.spec import TopicSpec

Position = int | Literal["oldest", "end"]

#: Indexes that one search for the oldest message covers.
WINDOW = 1000


def subscribe(spec: TopicSpec, consumer: str, start: Position) -> Operation[bool]:
    """Subscribe a consumer; see `ackq.topic.Topic.subscribe`."""
    if (yield from position(spec, consumer)) is not None:
        return False
    return (yield from _place(spec, consumer, start, "absent"))


def seek(spec: TopicSpec, consumer: str, to: Position) -> Operation[None]:
    """Move a consumer; see `ackq.topic.Topic.seek`."""
    if not (yield from _place(spec, consumer, to, "present")):
        raise not_subscribed(spec, consumer)


def unsubscribe(spec: TopicSpec, consumer: str) -> Operation[bool]:
    """Unsubscribe a consumer; see `ackq.topic.Topic.unsubscribe`."""
    keys = spec.keys.consumer(consumer)
    known = yield from position(spec, consumer)
    yield Request((b"DEL", keys.place, keys.leases, keys.ranges), resend=True)
    return known is not None


def position(spec: TopicSpec, consumer: str) -> Operation[int | None]:
    """Return the last index committed; see `ackq.topic.Topic.position`."""
    _, place = yield from _newest_and_place(spec, consumer)
    return place


def lag(spec: TopicSpec, consumer: str) -> Operation[int]:
    """Count the uncommitted indexes; see `ackq.topic.Topic.lag`."""
    newest, place = yield from _newest_and_place(spec, consumer)
    if place is None:
        raise not_subscribed(spec, consumer)
    return max(0, newest - place)


def newest(spec: TopicSpec) -> Operation[int]:
    """Return the newest index; see `ackq.topic.Topic.newest`."""
    index, _ = yield from _counters(spec)
    return index


def oldest(spec: TopicSpec) -> Operation[int | None]:
    """Return the index of the oldest message; see `ackq.topic.Topic.oldest`."""
    last, first = yield from _counters(spec)
    index = yield from find_live(spec, first, last)
    return index if index <= last else None


def find_live(spec: TopicSpec, start: int, stop: int) -> Operation[int]:
    """Return the index of the first message from ``start`` to ``stop``, or ``stop`` + 1.

    One round trip per 1,000 indexes.
    """
    at = start
    while at <= stop:
        window = spec.keys.messages(at - 1, min(WINDOW, stop - at + 1))
        request = Request((len(window), *window), script=scripts.load("topic/probe"), resend=True)
        position = yield from call(spec, request)
        if position:
            return at + int(position) - 1
        at += len(window)
    return stop + 1


def not_subscribed(spec: TopicSpec, consumer: str) -> NotSubscribed:
    """Return the error for a consumer that is not subscribed."""
    return NotSubscribed(
        f"topic {spec.name!r}: consumer {consumer!r} is not subscribed; call subscribe first",
        consumer=consumer,
    )


def _place(
    spec: TopicSpec, consumer: str, to: Position, when: Literal["absent", "present"]
) -> Operation[bool]:
    keys = spec.keys.consumer(consumer)
    place: Arg
    if to == "oldest":
        last, first = yield from _counters(spec)
        place = (yield from find_live(spec, first, last)) - 1
    elif to == "end":
        place = "end"
    elif isinstance(to, int) and not isinstance(to, bool) and 1 <= to < 2**53:
        place = to - 1
    else:
        raise ConfigurationError(f"a place is an index from 1, 'oldest' or 'end', not {to!r}")
    request = Request(
        (4, spec.keys.newest, keys.place, keys.leases, keys.ranges, place, when),
        script=scripts.load("topic/seek"),
        resend=True,
    )
    status, *details = yield from call(spec, request, keys)
    if status == b"beyond":
        raise ConfigurationError(
            f"topic {spec.name!r} has no index {to!r} yet: the newest is {details[0]}; use 'end'"
            " for what will be published"
        )
    return bool(status == b"ok")


def _newest_and_place(spec: TopicSpec, consumer: str) -> Operation[tuple[int, int | None]]:
    """Return the newest index, and the consumer's position if it is subscribed."""
    keys = spec.keys.consumer(consumer)
    texts = yield Request((b"MGET", spec.keys.newest, keys.place), resend=True)
    return _index(spec, texts[0]) or 0, _index(spec, texts[1])


def _counters(spec: TopicSpec) -> Operation[tuple[int, int]]:
    """Return the newest index, and the lowest index not trimmed by count."""
    texts = yield Request((b"MGET", spec.keys.newest, spec.keys.first), resend=True)
    last, first = _index(spec, texts[0]) or 0, _index(spec, texts[1]) or 1
    return last, first if first <= last + 1 else 1


def _index(spec: TopicSpec, value: bytes | None) -> int | None:
    if value is None:
        return None
    if not value.isdigit():
        raise KeyTypeError(f"topic {spec.name!r}: a key holds {value[:50]!r} and not an index")
    return int(value)
