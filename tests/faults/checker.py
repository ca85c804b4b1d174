"""Check the events of producers and consumers against the guarantees of a reliable queue.

The events are those of `tests.faults.roles`: each has its times by a clock that all processes
share, ``begin`` before the request and ``end`` after the reply. What was invoked and never
answered may have happened or not.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from .roles import body_of

Event = dict[str, Any]

#: µs by which a receipt may lie later than the lease was asked to end.
JITTER = 65_536


@dataclass
class Verdict:
    """What was counted, and every violation in words."""

    pushed: int = 0
    delivered: int = 0
    redelivered: int = 0
    refused: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass
class _Story:
    """All that happened to one message."""

    pushes: list[Event] = field(default_factory=list)
    deliveries: list[Event] = field(default_factory=list)
    settles: list[Event] = field(default_factory=list)


def check(events: Iterable[Event], lease: float, dead: Collection[str] = ()) -> Verdict:
    """Check a history that ends with a drained queue.

    Args:
        events: from all processes, in any order.
        lease: seconds that every delivery lasted, and by which leases were extended.
        dead: the ids of the dead letters.
    """
    stories: defaultdict[str, _Story] = defaultdict(_Story)
    for event in events:
        story = stories[event["id"]]
        places = {"push": story.pushes, "deliver": story.deliveries}
        places.get(event["kind"], story.settles).append(event)
    verdict = Verdict()
    for message_id, story in stories.items():
        story.deliveries.sort(key=functools.cmp_to_key(_order))
        found = [
            *_lost_or_invented(message_id, story, message_id in dead),
            *_delivered_after_ack(story),
            *_leased_twice(story, lease),
            *_not_fenced(story, lease),
            *_miscounted(story),
        ]
        verdict.problems += [f"{message_id}: {problem}" for problem in found]
        verdict.pushed += any(each["state"] == "ok" for each in story.pushes)
        verdict.delivered += len(story.deliveries)
        verdict.redelivered += max(0, len(story.deliveries) - 1)
        verdict.refused += sum(each["state"] == "refused" for each in story.settles)
    return verdict


def _order(one: Event, other: Event) -> int:
    """Compare two deliveries by when the server made them.

    Receipts tell, unless the jitter may have turned them around. Then the one message was given
    back before the other took it, and so its reply had been read by then.
    """
    apart: int = one["receipt"] - other["receipt"]
    if abs(apart) > JITTER:
        return apart
    return 1 if one["end"] > other["end"] else -1


def _lost_or_invented(message_id: str, story: _Story, dead: bool) -> Iterable[str]:
    states = {each["state"] for each in story.pushes}
    acks = {each["state"] for each in story.settles if each["kind"] == "ack"}
    if "ok" in states and not story.deliveries and not dead:
        yield "lost: pushed, and never delivered"
    elif "ok" in states and not dead and not acks - {"refused", "fail"}:
        yield "lost: delivered, never acked, and the queue is empty"
    if story.deliveries and not states:
        yield "invented: delivered, and never pushed"
    if story.deliveries and "fail" in states:
        yield "delivered although its push was refused"
    for delivery in story.deliveries:
        if delivery["body"].encode("latin-1") != body_of(message_id):
            yield f"changed: {delivery['token']} got another body"


def _delivered_after_ack(story: _Story) -> Iterable[str]:
    for ack in _of(story, "ack", "ok"):
        for delivery in story.deliveries:
            if delivery["begin"] > ack["end"]:
                yield f"delivered to {delivery['token']} after the ack of {ack['token']}"


def _leased_twice(story: _Story, lease: float) -> Iterable[str]:
    for earlier, later in _consecutive(story):
        if any(
            each["kind"] in ("nack", "release") and each["state"] not in ("refused", "fail")
            for each in _settles_of(story, earlier)
        ):
            continue
        # By the server's clock: a receipt is the deadline of its lease, jitter included.
        if later["receipt"] - lease * 1_000_000 < earlier["receipt"]:
            yield f"{later['token']} was given the message while {earlier['token']} held it"
        for extension in _settles_of(story, earlier):
            if (extension["kind"], extension["state"]) == ("extend", "ok") and later[
                "end"
            ] < extension["begin"] + lease:
                yield f"{later['token']} was given a message that {earlier['token']} had extended"


def _not_fenced(story: _Story, lease: float) -> Iterable[str]:
    if len(_of(story, "ack", "ok")) > 1:
        yield "acked twice with success"
    for earlier, later in _consecutive(story):
        for settle in _settles_of(story, earlier):
            if settle["state"] == "ok" and settle["begin"] > later["end"]:
                yield f"a stale {settle['kind']} of {earlier['token']} succeeded"
    for delivery in story.deliveries:
        settles = sorted(_settles_of(story, delivery), key=lambda each: float(each["begin"]))
        for settle in settles:
            if settle["kind"] in ("nack", "release"):
                break  # from here on the message may be another's
            # The lease was given after the pop began, so until then it surely ran.
            if settle["state"] == "refused" and settle["end"] < delivery["begin"] + lease:
                yield f"the {settle['kind']} of the holder, {delivery['token']}, was refused"


def _miscounted(story: _Story) -> Iterable[str]:
    for earlier, later in _consecutive(story):
        released = any(
            each["kind"] == "release" and each["state"] not in ("refused", "fail")
            for each in _settles_of(story, earlier)
        )
        if later["count"] <= earlier["count"] - released:
            yield f"counted {earlier['count']}, then {later['count']}"


def _of(story: _Story, kind: str, state: str) -> list[Event]:
    return [each for each in story.settles if each["kind"] == kind and each["state"] == state]


def _settles_of(story: _Story, delivery: Event) -> list[Event]:
    return [each for each in story.settles if each["token"] == delivery["token"]]


def _consecutive(story: _Story) -> Iterable[tuple[Event, Event]]:
    return zip(story.deliveries, story.deliveries[1:], strict=False)
