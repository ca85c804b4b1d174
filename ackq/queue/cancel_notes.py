"""The notes of messages that were canceled deep in a list; see ``lua/parts/listed.lua``."""

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

#: Notes that one call reads.
READ = 500
#: How long a note counts, in µs.
LASTS = 7 * 86400 * 1_000_000

Listed = TypeVar("Listed", Found, PeekedMessage)

_NOTE = re.compile(rb"([0-9]+) [0-9]+ ([0-9]+)")


def with_notes(spec: QueueSpec, seen: Sequence[Listed], now: int) -> Operation[list[Listed]]:
    """Return messages of lists, with a mark on those that a pop will make dead letters.

    A user who may not read the notes gets the messages as they are.

    Args:
        spec: of the queue.
        seen: the messages, in the order in which they will be delivered.
        now: the server's time in µs.
    """
    noted: Counter[bytes] = Counter()
    fields = [mark(match.body) + b":" + match.id.encode(errors="replace") for match in seen]
    each = list(dict.fromkeys(fields))
    with suppress(NoPermissionError):
        for first in range(0, len(each), READ):
            noted += yield from _noted(spec, each[first : first + READ], now)
    marked = []
    for match, field in zip(seen, fields, strict=True):
        if noted[field]:
            noted[field] -= 1
            match = replace(match, canceled=True)
        marked.append(match)
    return marked


def _noted(spec: QueueSpec, fields: Sequence[bytes], now: int) -> Operation[Counter[bytes]]:
    """Return how many of each of these messages are canceled."""
    request = Request((b"HMGET", spec.keys.notes, b"", *fields), resend=True)
    emptied, *notes = yield from call(spec, request)
    first = max(int(emptied or 0), now - LASTS)
    noted: Counter[bytes] = Counter()
    for field, note in zip(fields, notes, strict=True):
        found = _NOTE.fullmatch(note or b"")
        if found and int(found[1]) > first:
            noted[field] = int(found[2])
    return noted
