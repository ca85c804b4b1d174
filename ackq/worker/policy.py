"""The decisions of a worker as plain values, without clock, queue or threads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from ackq.errors import ConfigurationError
from ackq.worker.verdicts import Reject, Release, Retry

#: Steps of the jitter. Messages that fail together with the same step are nacked in one call.
JITTER_STEPS = 8
#: Longest reason that is kept, in characters.
MAX_REASON = 1000
#: Deliveries that a worker allows if its queue sets no limit. With the default backoff they take
#: about an hour: longer than most outages, and a poison message still ends.
MAX_RECEIVES = 25
#: The fraction of a lease after which it is renewed.
RENEW_AFTER = 1 / 3


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a message waits after its handler failed: exponential, with jitter.

    The delay after the n-th receive is ``base * factor ** (n - 1)`` seconds, at most ``limit``.
    A random part of it, up to ``jitter``, is subtracted, so that messages that failed together
    are not redelivered together.
    """

    #: Seconds after the first failure. Defaults to 1 second.
    base: float = 1.0
    #: Growth from one failure to the next. Defaults to 2.
    factor: float = 2.0
    #: Longest delay. Defaults to 300 seconds.
    limit: float = 300.0
    #: Largest part of the delay to subtract at random, 0 to 1. Defaults to 0.5.
    jitter: float = 0.5

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            ConfigurationError: names the setting and its value.
        """
        check_seconds(self.base, "backoff.base", zero=True)
        check_seconds(self.limit, "backoff.limit", zero=True)
        if not 1 <= self.factor <= 100 or not 0 <= self.jitter <= 1:
            raise ConfigurationError("backoff.factor is 1 to 100 and backoff.jitter 0 to 1")

    def delay(self, receive_count: int, chance: float) -> float:
        """Return the seconds to wait; ``chance`` is a random number from 0 to 1."""
        delay: float = min(self.limit, self.base * self.factor ** min(receive_count - 1, 60))
        step = math.floor(chance * JITTER_STEPS) / JITTER_STEPS
        return delay * (1 - self.jitter * step)


class Settlement(NamedTuple):
    """How to settle a message that is not acked."""

    verb: str  #: "nack", "reject" or "release"
    argument: float | str = 0.0  #: seconds of delay, or a reason


def settlement_of(
    error: BaseException, receive_count: int, backoff: Backoff, chance: float
) -> Settlement:
    """Return how to settle a message whose handler raised ``error``."""
    match error:
        case Release(delay=delay):
            return Settlement("release", float(delay) if _is_delay(delay) else 0.0)
        case Reject(reason=reason):
            return Settlement("reject", _storable(reason))
        case Retry(delay=delay) if delay is not None and _is_delay(delay):
            return Settlement("nack", float(delay))
    return Settlement("nack", backoff.delay(receive_count, chance))


def _storable(reason: Any) -> str:
    return str(reason)[:MAX_REASON].encode(errors="replace").decode()


def _is_delay(delay: Any) -> bool:
    # A verdict must not fail, so an invalid delay counts as no delay given.
    return isinstance(delay, int | float) and 0 <= delay < 1e9


def check_seconds(value: Any, name: str, *, zero: bool = False) -> None:
    """Raise ConfigurationError unless ``value`` is a valid number of seconds."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 if zero else 1e-3) <= value <= 1e9:
        raise ConfigurationError(
            f"{name} is {'0' if zero else '0.001'} to 1e9 seconds, not {value!r}"
        )
