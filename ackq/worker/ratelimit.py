"""A rate limit per queue, shared by all of its workers and enforced by the server."""

from __future__ import annotations

from dataclasses import dataclass

from ackq import scripts
from ackq.config import Seconds, check_integer, in_seconds, microseconds
from ackq.core.call import Keys, call
from ackq.core.effects import Operation, Request
from ackq.queue.spec import QueueSpec


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Limit all workers of a queue together to ``count`` messages in ``per`` seconds.

    In any span of t seconds, at most ``burst + t * count / per`` messages are taken. Redelivered
    messages count.
    """

    #: Messages, 1 to 1e9.
    count: int
    #: Seconds, up to a day. Defaults to 1 second.
    per: Seconds = 1.0
    #: Messages that may be taken at once after an idle period. Defaults to a tenth of a second's
    #: worth, at least 1.
    burst: int | None = None

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            ConfigurationError: a setting is out of range; the text names it and its value.
        """
        check_integer(self.count, "rate_limit.count", 1, 1_000_000_000)
        microseconds(self.per, "rate_limit.per", 86_400)
        if self.burst is not None:
            check_integer(self.burst, "rate_limit.burst", 1, 1_000_000_000)


def permit(
    spec: QueueSpec, limit: RateLimit, wanted: int, returned: int
) -> Operation[tuple[int, int]]:
    """Request permits for ``wanted`` messages, and return ``returned`` unused ones.

    Returns:
        How many messages may be taken, and if none, the microseconds until one may be.
    """
    burst = limit.burst or max(1, int(limit.count / in_seconds(limit.per) / 10))
    request = Request(
        (
            *spec.keys.passed("worker/permit"),
            wanted,
            returned,
            limit.count,
            microseconds(limit.per, "per", 86_400),
            burst,
        ),
        script=scripts.load("worker/permit"),
        resend=True,  # at worst, fewer messages are taken than allowed
    )
    keys = Keys(f"queue {spec.name!r}", {spec.keys.rate: "string"})
    permitted, wait = yield from call(keys, request)
    return permitted, wait
