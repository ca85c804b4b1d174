"""A rate per queue that all of its workers share, kept by the server."""

from __future__ import annotations

from dataclasses import dataclass

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.config import check_integer, microseconds
from ackq.core.call import raise_for_type
from ackq.core.effects import Operation, Request
from ackq.queue.spec import QueueSpec


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most ``count`` messages are taken in ``per`` seconds, by all workers together.

    In any span of t seconds no more than ``burst + t * count / per`` are. Redeliveries count.
    """

    #: Messages, 1 to 1e9.
    count: int
    #: Seconds, up to a day. Defaults to 1 second.
    per: float = 1.0
    #: Messages that may be taken at once after idleness. Defaults to what a tenth of a second
    #: allows, at least 1.
    burst: int | None = None

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            ConfigurationError: names the setting, its value and its range.
        """
        check_integer(self.count, "rate_limit.count", 1, 1_000_000_000)
        microseconds(self.per, "rate_limit.per", 86_400)
        if self.burst is not None:
            check_integer(self.burst, "rate_limit.burst", 1, 1_000_000_000)


def permit(
    spec: QueueSpec, limit: RateLimit, wanted: int, returned: int
) -> Operation[tuple[int, int]]:
    """Ask for leave to take ``wanted`` messages, and give back what was not taken before.

    Returns:
        How many may be taken, and if none, the microseconds until one may.
    """
    burst = limit.burst or max(1, int(limit.count / limit.per / 10))
    request = Request(
        (1, spec.keys.rate, wanted, returned, limit.count, microseconds(limit.per, "per", 86_400),
         burst),
        script=scripts.load("worker/permit"),
        resend=True,  # at worst less is taken than the limit allows
    )  # fmt: skip
    try:
        permitted, wait = yield request
    except ResponseError as error:
        yield from raise_for_type(f"queue {spec.name!r}", {spec.keys.rate: "string"}, error)
    return permitted, wait
