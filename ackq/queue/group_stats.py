"""Which groups a queue has, as far as a consumer has met them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from ackq import scripts
from ackq.config import check_integer
from ackq.core.call import call
from ackq.core.effects import Operation, Request
from ackq.queue.messages import GroupStats
from ackq.queue.spec import QueueSpec

#: Groups of one call, about.
CHUNK = 100
#: The columns of a group in the reply of the script.
_COLUMNS = 4


def largest(spec: QueueSpec, wanted: int, within: int) -> Operation[list[GroupStats]]:
    """Return the groups with the longest backlogs; see `ackq.Queue.groups`."""
    check_integer(wanted, "n", 1, 10_000)
    check_integer(within, "within", 1, 10_000_000)
    found: dict[str, GroupStats] = {}
    for which in ("busy", "turns"):
        cursor = b"0"
        while True:
            args = (*spec.keys.passed("groups/list"), which, cursor, CHUNK)
            request = Request(args, scripts.load("groups/list"), resend=True)
            now, cursor, *columns = yield from call(spec, request)
            found |= {each.name: each for each in _groups(now, columns)}
            if cursor == b"0" or len(found) >= within:
                break
    return heapq.nlargest(wanted, found.values(), key=attrgetter("waiting", "in_flight"))


def _groups(now: int, columns: Sequence[Any]) -> Iterator[GroupStats]:
    for at in range(0, len(columns), _COLUMNS):
        tag, in_flight, waiting, since = columns[at : at + _COLUMNS]
        turn_for = max(0, now - since) / 1_000_000 if since else None
        yield GroupStats(_name_of(tag), waiting, in_flight, turn_for)


def _name_of(tag: bytes) -> str:
    is_hash = tag[:1] == b"\1"
    return f"sha1:{tag[1:].decode()}" if is_hash else tag.decode(errors="replace")
