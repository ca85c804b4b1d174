"""A rate limit per queue, shared by all of its workers and enforced by the server."""

from __future__ import annotations

from ackq import scripts
from ackq.config import RateLimit
from ackq.core.call import Keys, call
from ackq.core.effects import Operation, Request
from ackq.queue.spec import QueueSpec


def permit(
    spec: QueueSpec, limit: RateLimit, wanted: int, returned: int
) -> Operation[tuple[int, int]]:
    """Request permits for ``wanted`` messages, and return ``returned`` unused ones.

    Returns:
        How many messages may be taken, and if none, the microseconds until one may be.
    """
    request = Request(
        (
            *spec.keys.passed("worker/permit"),
            wanted,
            returned,
            limit.count,
            limit.period,
            limit.at_once,
        ),
        script=scripts.load("worker/permit"),
        resend=True,  # at worst, fewer messages are taken than allowed
    )
    keys = Keys(f"queue {spec.name!r}", {spec.keys.rate: "string"})
    permitted, wait = yield from call(keys, request)
    return permitted, wait
