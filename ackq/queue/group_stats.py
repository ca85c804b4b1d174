"""Which groups a queue has, as far as a consumer has met them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

from ackq import scripts
from ackq.config import check_integer
from ackq.core.call import call
from ackq.core.effects import Operation, Request
from ackq.errors import ConfigurationError
from ackq.queue.group_names import shown_name
from ackq.queue.messages import GroupStats
from ackq.queue.spec import QueueSpec

#: Groups of one call, about.
CHUNK = 100
#: The columns of a group in the reply of the script.
_COLUMNS = 5
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
    for which in ("busy", "turns"):
        cursor = b"0"
        while True:
            args = (*spec.keys.passed("groups/list"), which, cursor, CHUNK)
            request = Request(args, scripts.load("groups/list"), resend=True)
            now, cursor, *columns = yield from call(spec, request)
            found |= {each.name: each for each in _groups(now, columns) if containing in each.name}
            looked += len(columns) // _COLUMNS
            if cursor == b"0" or looked >= within:
                break
    return ranked(found.values(), wanted, by)


def ranked(groups: Iterable[GroupStats], wanted: int, by: Order) -> list[GroupStats]:
    """Return the groups that come first."""
    return heapq.nlargest(wanted, groups, key=lambda each: _rank(each, by))


def _rank(group: GroupStats, by: Order) -> tuple[float, float]:
    rank = (group.waiting, group.oldest or 0.0)
    return rank if by == "waiting" else rank[::-1]


def _groups(now: int, columns: Sequence[Any]) -> Iterator[GroupStats]:
    for at in range(0, len(columns), _COLUMNS):
        tag, in_flight, waiting, since, first = columns[at : at + _COLUMNS]
        turn_for = (now - since) / 1_000_000 if 0 < since <= now else None
        oldest = max(0, now - first) / 1_000_000 if first else None
        yield GroupStats(shown_name(tag), waiting, in_flight, turn_for, oldest)
