"""Where messages of RSMQ are: find them by id."""

from __future__ import annotations

from typing import Any

from ackq.core.call import call
from ackq.core.dead_stream import search_dead
from ackq.core.effects import Arg, Operation, Request
from ackq.core.failure import parse
from ackq.core.inspection_results import Found
from ackq.core.search_terms import OnProgress, check_within, no_progress
from ackq.rsmq.values import RSMQSpec, check_id, count_of, letter_of


def find(
    spec: RSMQSpec, qname: str, id: str, within: int | None, on_progress: OnProgress | None = None
) -> Operation[Found | None]:
    """Find one message; see `ackq.rsmq.RSMQ.find`."""
    check_within(within)
    check_id(id)
    stored = yield from _stored(spec, qname, id)
    if stored:
        return stored

    def matches(found: Found) -> bool:
        return found.id == id

    dead = yield from search_dead(
        spec,
        spec.keys(qname).dead,
        f"{spec.ns}:{qname}",
        letter_of,
        matches,
        1,
        within,
        on_progress or no_progress,
        qname,
    )
    return dead[0] if dead else None


def _stored(spec: RSMQSpec, qname: str, id: str) -> Operation[Found | None]:
    """Return a message of the queue. Cost: O(log messages), five round trips."""
    keys = spec.keys(qname)

    def ask(*command: Arg) -> Operation[Any]:
        return call(spec, Request(command, resend=True), qname)

    # With ZSCORE, those who may only look could do more, see `ackq.ops.acl`.
    (visible,) = yield from ask(b"ZMSCORE", keys.zset, id)
    body, rc = yield from ask(b"HMGET", keys.hash, id, f"{id}:rc")
    if visible is None or body is None:
        return None
    rank = yield from ask(b"ZRANK", keys.zset, id)
    (note,) = yield from ask(b"HMGET", keys.errors, id)
    seconds, microseconds = yield from ask(b"TIME")
    left = float(visible) / 1000 - int(seconds) - int(microseconds) / 1_000_000
    count, name, errors = count_of(rc), f"{spec.ns}:{qname}", parse(note or b"")
    if left <= 0:
        return Found(id, "ready", body, count, name, position=rank, errors=errors)
    if count:
        return Found(id, "in_flight", body, count, name, lease_ends_in=left, errors=errors)
    return Found(id, "delayed", body, count, name, due_in=left, errors=errors)
