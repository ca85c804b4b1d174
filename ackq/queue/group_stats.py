"""Which groups a queue has, as far as a consumer has met them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Literal, get_args

from ackq import scripts
from ackq.config import check_integer
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.errors import ConfigurationError
from ackq.queue.group_names import shown_name
from ackq.queue.messages import GroupStats
from ackq.queue.spec import QueueSpec

#: Groups of one call, about.
CHUNK = 100
#: A group in the reply of the script: its tag, messages in flight and moved aside, since when it is
#: its turn, when the first one was moved aside, and which dead letters stop it.
Row = tuple[bytes, int, int, int, int, bytes]
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
    for which in ("busy", "turns", "stopped"):
        cursor: Arg = b"0"
        while True:
            now, cursor, rows = yield from page(spec, which, cursor)
            groups = [_group(now, *row) for row in rows]
            found |= {each.name: each for each in groups if containing in each.name}
            looked += len(groups)
            if cursor == b"0" or looked >= within:
                break
    return ranked(found.values(), wanted, by)


def ranked(groups: Iterable[GroupStats], wanted: int, by: Order) -> list[GroupStats]:
    """Return the groups that come first."""
    return heapq.nlargest(wanted, groups, key=lambda each: _rank(each, by))


def _rank(group: GroupStats, by: Order) -> tuple[float, ...]:
    rank = (group.waiting, group.oldest or 0.0)
    # Somebody has to do something about those that are stopped.
    return (bool(group.stopped_by), *(rank if by == "waiting" else rank[::-1]))


def page(spec: QueueSpec, which: str, cursor: Arg) -> Operation[tuple[int, Arg, list[Row]]]:
    """Return the time, the cursor of the next page, and a row for each group of this one.

    They are those of ``groups/list.lua``.
    """
    args = (*spec.keys.passed("groups/list"), which, cursor, CHUNK)
    request = Request(args, scripts.load("groups/list"), resend=True)
    now, cursor, *columns = yield from call(spec, request)
    return now, cursor, list(zip(*[iter(columns)] * len(get_args(Row)), strict=True))


def _group(
    now: int, tag: bytes, in_flight: int, waiting: int, since: int, first: int, ids: bytes
) -> GroupStats:
    return GroupStats(
        shown_name(tag),
        waiting,
        in_flight,
        turn_for=(now - since) / 1_000_000 if 0 < since <= now else None,
        oldest=max(0, now - first) / 1_000_000 if first else None,
        stopped_by=tuple(ids.decode().split()),
    )
