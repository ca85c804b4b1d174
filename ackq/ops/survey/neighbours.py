"""The keys beside a list: those of ackq, and lists that consumers may use for work in progress."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ackq.core.effects import Operation, Request
from ackq.core.names import CLAIM, STAGED, literal
from ackq.ops.asking import ask
from ackq.queue.keys import QueueKeys

#: Keys that one SCAN examines, and the most SCAN calls.
SCANNED, STEPS = 1000, 20
#: Most processing lists that are reported.
MAX_NEIGHBOURS = 50
#: Words in the names of lists that hold work in progress.
_WORDS = re.compile(
    rb"process|progress|working|worker|flight|backup|pending|temp|tmp|reserved|unack|running"
    rb"|active|doing|consumer|busy",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Search:
    """Lists that look like processing lists, with their lengths; None: this user may not ask.

    ``keys`` is the number of keys examined; ``complete`` is whether those were all.
    """

    lists: dict[bytes, int | None]
    keys: int
    complete: bool


def processing_lists(key: bytes) -> Operation[Search]:
    """Search for lists whose name contains that of ``key`` and a word like "processing"."""
    pattern = b"*" + literal(key) + b"*"
    lists: dict[bytes, int | None] = {}
    cursor, steps = b"0", 0
    while steps < STEPS and len(lists) < MAX_NEIGHBOURS:
        cursor, keys = yield Request(
            (b"SCAN", cursor, b"MATCH", pattern, b"COUNT", SCANNED, b"TYPE", b"list"), resend=True
        )
        steps += 1
        for other in keys:
            if (
                other not in lists
                and is_processing_list(key, other)
                and len(lists) < MAX_NEIGHBOURS
            ):
                lists[other] = yield from ask(b"LLEN", other)  # None if denied, or another type
        if cursor == b"0":
            break
    return Search(dict(sorted(lists.items())), steps * SCANNED, cursor == b"0")


def is_processing_list(key: bytes, other: bytes) -> bool:
    """Return whether ``other`` may hold messages of the list ``key`` that are being processed."""
    if other == key or is_kept_by_ackq(key, other):
        return False
    return bool(_WORDS.search(other.replace(key, b"", 1)))


def is_kept_by_ackq(key: bytes, other: bytes) -> bool:
    """Return whether ``other`` is a list that ackq keeps for the queue ``key``."""
    prefixes = tuple(key + prefix.encode() for prefix in (CLAIM, STAGED))
    return other == key + b"HANDOFF" or other.startswith(prefixes)


def side_keys(keys: QueueKeys) -> Operation[dict[bytes, str]]:
    """Return the side keys of ackq that exist, with their types."""
    kinds = {}
    for key in [*dict.fromkeys((*keys.all(), *keys.types()))][1:]:
        kind: bytes = yield Request((b"TYPE", key), resend=True)
        if kind != b"none":
            kinds[key] = kind.decode()
    return kinds
