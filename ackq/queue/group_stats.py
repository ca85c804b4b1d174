"""Which groups a queue has, as far as a consumer has met them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, get_args

from ackq import scripts
from ackq.config import RateLimit, check_integer
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.errors import ConfigurationError
from ackq.queue.group_names import shown_name
from ackq.queue.messages import GroupStats
from ackq.queue.spec import QueueSpec

#: Groups of one call, about.
CHUNK = 100
#: A group in the reply of the script: its tag, messages in flight and moved aside, since when it is
#: its turn, when the first one was moved aside, when its pause ends, its own limits, and which dead
#: letters stop it.
Row = tuple[bytes, int, int, int, int, int, bytes, bytes]
#: The end of a pause that lasts until somebody ends it, in µs.
ENDLESS = 2**53 - 1
#: By what groups are chosen and sorted.
Order = Literal["waiting", "oldest"]


def first(
    spec: QueueSpec, wanted: int, within: int, by: Order, containing: str
) -> Operation[list[GroupStats]]:
    """Return the groups that come first in an order; see `ackq.Queue.groups`."""
    if by not in get_args(Order):
        raise ConfigurationError(f"by is one of {get_args(Order)}, not {by!r}")
    check_integer(wanted, "n", 1, 10_000)
    check_integer(within, "within", 1, 10_000_000)
    found: dict[str, GroupStats] = {}
    looked = 0
    for which in ("busy", "turns", "stopped", "limits", "pauses"):
        cursor: Arg = b"0"
        while True:
            now, cursor, rows = yield from page(spec, which, cursor)
            groups = [_group(now, *row) for row in rows]
            if which == "pauses":
                groups = [each for each in groups if each.paused_for]  # others end at the next pop
            found |= {each.name: each for each in groups if containing in each.name}
            looked += len(groups)
            if cursor == b"0" or looked >= within:
                break
    return ranked(found.values(), wanted, by)


def ranked(groups: Iterable[GroupStats], wanted: int, by: Order) -> list[GroupStats]:
    """Return the groups that come first. A shard that has nothing of a group does not count."""
    found = sorted(groups, key=lambda each: _rank(each, by), reverse=True)
    first = {each.name: each for each in reversed(found)}
    shown = [each for each in found if each.waiting or each.in_flight or each is first[each.name]]
    return shown[:wanted]


def _rank(group: GroupStats, by: Order) -> tuple[float, ...]:
    rank = (group.waiting, group.oldest or 0.0)
    # Somebody has to do something about those that are stopped.
    urgent = bool(group.stopped_by), group.paused_for is not None
    return (*urgent, *(rank if by == "waiting" else rank[::-1]))


def page(spec: QueueSpec, which: str, cursor: Arg) -> Operation[tuple[int, Arg, list[Row]]]:
    """Return the time, the cursor of the next page, and a row for each group of this one.

    They are those of ``groups/list.lua``.
    """
    args = (*spec.keys.passed("groups/list"), which, cursor, CHUNK)
    request = Request(args, scripts.load("groups/list"), resend=True)
    now, cursor, *columns = yield from call(spec, request)
    return now, cursor, list(zip(*[iter(columns)] * len(get_args(Row)), strict=True))


def _group(
    now: int,
    tag: bytes,
    in_flight: int,
    waiting: int,
    since: int,
    first: int,
    till: int,
    limits: bytes,
    ids: bytes,
) -> GroupStats:
    in_flight_limit, _, rate = (limits.decode() or "0 0/0/0").partition(" ")
    count, period, burst = map(int, rate.split("/"))
    left = math.inf if till == ENDLESS else (till - now) / 1_000_000
    return GroupStats(
        shown_name(tag),
        waiting,
        in_flight,
        turn_for=(now - since) / 1_000_000 if 0 < since <= now else None,
        oldest=max(0, now - first) / 1_000_000 if first else None,
        stopped_by=tuple(ids.decode().split()),
        paused_for=left if left > 0 else None,
        limit=int(in_flight_limit) or None,
        rate=RateLimit(count, period / 1_000_000, burst) if count else None,
    )
