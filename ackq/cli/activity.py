"""Compute the activity of a queue: counts by state, and rates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from ackq.ops.discovery import QueueCounts, rate
from ackq.queue.messages import QueueCounters

_SHARD = re.compile(r"\{([^{}]+):(\d+)\}")
#: Seconds by which a lease may appear longer than its timeout: timeouts are counted in whole
#: seconds, and each lease has a little jitter.
_ROUNDED = 1.1


@dataclass(frozen=True, slots=True)
class Activity:
    """One row of the display. None means unknown."""

    ready: int
    in_flight: int
    delayed: int
    dead: int
    paused: bool
    pushed_per_second: float | None
    taken_per_second: float | None
    acked_per_second: float | None
    returned_per_second: float | None
    #: Seconds since the lease that ends first was taken or last renewed.
    oldest_lease_age: float | None
    #: Seconds since the first lease ended, if its message has not been taken again.
    overdue: float | None


def activity(now: QueueCounts, before: QueueCounts | None) -> Activity:
    """Return the activity of a queue between two samples.

    If other clients removed messages with their own commands, the rate of pushes may be negative;
    then it is reported as unknown.
    """
    stats, counters = now.stats, now.counters
    left = stats.lease_ends_in
    pushed = taken = acked = returned = None
    if (last := _comparable(counters, before)) and counters and before:
        seconds = counters.at - last.at
        taken = rate(counters.taken, last.taken, seconds)
        acked = rate(counters.acked, last.acked, seconds)
        returned = rate(counters.returned, last.returned, seconds)
        change = rate(counters.pushed, last.pushed, seconds)
        pushed = change if change is not None and change >= 0 else None
    return Activity(
        stats.ready, stats.in_flight, stats.delayed, stats.dead, stats.paused,
        pushed, taken, acked, returned,
        _age(left, counters.timeouts if counters else {}),
        -left if left is not None and left < 0 else None,
    )  # fmt: skip


def _comparable(now: QueueCounters | None, before: QueueCounts | None) -> QueueCounters | None:
    """Return the earlier counters, if counting has not been interrupted since."""
    last = before.counters if before else None
    return last if now and last and now.since == last.since else None


def _age(left: float | None, timeouts: Mapping[int, int]) -> float | None:
    """Return the age of the lease that ends first, if only one timeout is in use.

    The age of a renewed lease counts from its last renewal. The receipt gives the time it was
    taken only together with its timeout, which is not stored. Finding the renewed lease that was
    taken first would require a scan of all of them.
    """
    if left is None or left < 0 or len(timeouts) != 1:
        return None
    (timeout,) = timeouts
    return max(0.0, timeout - left) if 0 < timeout > left - _ROUNDED else None


def rows(queues: Mapping[str, Activity]) -> dict[str, Activity]:
    """Return one row for each queue; the shards of a sharded queue share a row."""
    shards: dict[str, list[str]] = {}
    for name in queues:
        if found := _SHARD.fullmatch(name):
            shards.setdefault(found[1], []).append(name)
    together = dict(queues)
    for group, names in shards.items():
        if len(names) > 1:
            whole = _sum(together.pop(name) for name in names)
            together[f"{group} ({len(names)} shards)"] = whole
    return dict(sorted(together.items()))


def _sum(parts: Iterable[Activity]) -> Activity:
    """Combine several shards: add up the counts, and take the maximum of the ages."""
    all_parts = list(parts)
    whole: dict[str, int | float | bool | None] = {}
    for each in fields(Activity):
        values = [getattr(part, each.name) for part in all_parts]
        known = [value for value in values if value is not None]
        if each.name == "paused":
            whole["paused"] = any(values)
        elif each.name in ("oldest_lease_age", "overdue"):
            whole[each.name] = max(known, default=None)
        else:
            whole[each.name] = sum(known) if len(known) == len(values) else None
    return Activity(**whole)  # type: ignore[arg-type]
