"""The notes of messages that were canceled deep in a list; see ``lua/parts/cancels.lua``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from redis.exceptions import NoPermissionError

from ackq.core.call import call
from ackq.core.effects import Operation, Request
from ackq.core.failure_notes import mark
from ackq.core.inspection_results import Found, PeekedMessage
from ackq.queue.spec import QueueSpec

#: Notes that one call reads, of at most 2 KiB each.
READ = 500
#: How long a note counts, in µs.
LASTS = 7 * 86400 * 1_000_000

Listed = TypeVar("Listed", Found, PeekedMessage)

_FIELD = b"\0canceled"
_HEAD = re.compile(rb"([0-9]+):[0-9]+")
_LINE = re.compile(rb"([0-9]+):([0-9]+):([^\n]+)")


def with_notes(spec: QueueSpec, seen: Sequence[Listed], now: int) -> Operation[list[Listed]]:
    """Return messages of lists, with a mark on those that a pop will make dead letters.

    A user who may not read the notes gets the messages as they are.

    Args:
        spec: of the queue.
        seen: the messages, in the order in which they will be delivered.
        now: the server's time in µs.
    """
    noted: Counter[tuple[str, bytes]] = Counter()
    ids = list(dict.fromkeys(match.id for match in seen))
    with suppress(NoPermissionError):
        for first in range(0, len(ids), READ):
            noted += yield from _noted(spec, ids[first : first + READ], now)
    marked = []
    for match in seen:
        named = (match.id, mark(match.body)) if noted else None
        if named and noted[named]:
            noted[named] -= 1
            match = replace(match, canceled=True)
        marked.append(match)
    return marked


def _noted(spec: QueueSpec, ids: Sequence[str], now: int) -> Operation[Counter[tuple[str, bytes]]]:
    """Return how many messages with each id and body are canceled."""
    fields = (_FIELD + b":" + each.encode(errors="replace") for each in ids)
    request = Request((b"HMGET", spec.keys.receives, _FIELD, *fields), resend=True)
    head, *notes = yield from call(spec, request)
    noted: Counter[tuple[str, bytes]] = Counter()
    known = _HEAD.fullmatch(head or b"")
    if known is None:
        return noted
    first = int(known[1]) + LASTS
    for message_id, note in zip(ids, notes, strict=True):
        for ends, count, of in _LINE.findall(note or b""):
            if int(ends) > now and int(ends) >= first:
                noted[message_id, of] = int(count)
    return noted
