"""The stage of a former shard of a sharded queue with groups; see `ackq.queue.keys.Stage`."""

from __future__ import annotations

from redis.exceptions import ResponseError

from ackq.core.effects import Operation, Request
from ackq.queue.keys import Stage
from ackq.queue.spec import QueueSpec


def stage_of(spec: QueueSpec) -> Operation[Stage | None]:
    """Return the stage of a former shard of a queue with groups; None if it has nothing more."""
    try:
        state: bytes | None = yield Request((b"GET", spec.keys.base), resend=True)
        if state is None or not state.isdigit():
            return "open" if state is None else "closed"
        dead: int = yield Request((b"XLEN", spec.keys.dead), resend=True)
    except ResponseError:
        return "open"  # a list, or this user may not look
    return "sealed" if dead else None
