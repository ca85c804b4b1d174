"""What happened to the messages of a queue, as its scripts count it while a client watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

#: The longest time that counters are kept after they were last read, in seconds.
MAX_WATCH = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Counters:
    """What happened to messages since counting began. The counts only grow; no purge resets them.

    ``pushed`` and ``taken`` are not counted: they follow from the other counts, since each message
    and each delivery ends once. ``pushed + redriven`` equals the growth of the queue plus
    ``acked``, ``dropped`` and all of ``dead``.

    Counting restarts, with a new ``since``, if no call came within the window. To get a rate,
    compare two readings with the same ``since``: ``at`` is when each was taken.
    """

    #: When this was read and when counting began, in seconds since the epoch by the server's clock.
    at: float
    since: float
    #: Messages that entered the queue, from ackq or any other client, less those that other
    #: clients removed with their own commands. None if unknown.
    pushed: int | None
    #: Deliveries: messages taken, each time they were.
    taken: int
    #: Messages acked, or deleted by their consumer.
    acked: int
    #: How many of ``taken`` were delivered again because a lease had ended.
    returned: int
    #: Messages that were nacked; those that became dead letters count in ``dead`` too.
    nacked: int = 0
    #: Messages that release returned to the queue.
    released: int = 0
    #: New dead letters by reason. All rejects count as "rejected", whatever their reason.
    dead: Mapping[str, int] = field(default_factory=dict)
    #: Dead letters that were made ready again.
    redriven: int = 0
    #: Messages that a purge or a cancel deleted, without dead letters.
    dropped: int = 0
    #: Dead letters that were deleted.
    dead_dropped: int = 0


def derived(now: int, live: int, held: int, counted: Mapping[bytes, int]) -> dict[str, Any]:
    """Return the fields of `Counters` that follow from what the scripts counted.

    Args:
        now: when it was read, in µs since the epoch.
        live: messages in the queue now, without dead letters.
        held: how many of them are in flight.
        counted: the fields of the counters.
    """
    count = counted.get
    acked, nacked, released = count(b"acked", 0), count(b"nacked", 0), count(b"released", 0)
    returned, redriven, dropped = count(b"returned", 0), count(b"redriven", 0), count(b"dropped", 0)
    dead = {
        name[5:].decode(errors="replace"): number
        for name, number in counted.items()
        if name.startswith(b"dead:")
    }
    left = acked + sum(dead.values()) + dropped - redriven
    ended = acked + nacked + released + returned + count(b"dead:rejected", 0) + count(b"ended", 0)
    return {
        "at": now / 1_000_000,
        "since": counted[b"since"] / 1_000_000,
        "pushed": live - count(b"live", 0) + left,
        "taken": held - count(b"held", 0) + ended,
        "acked": acked,
        "returned": returned,
        "nacked": nacked,
        "released": released,
        "dead": dead,
        "redriven": redriven,
        "dropped": dropped,
        "dead_dropped": count(b"dropped:dead", 0),
    }


def total(parts: Sequence[Counters]) -> Counters:
    """Return the sums for a queue that counts in several parts; ``since`` is the latest of them."""
    summed: dict[str, Any] = {
        "at": max(counters.at for counters in parts),
        "since": max(counters.since for counters in parts),
    }
    for name in (own.name for own in fields(Counters) if own.name not in summed):
        values = [getattr(counters, name) for counters in parts]
        if name == "dead":
            summed[name] = dict(sum(map(Counter, values), Counter()))
        else:
            summed[name] = None if None in values else sum(values)
    return Counters(**summed)
