"""The decisions of a worker as plain values, without clock, queue or threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ackq.config import (
    RecordErrors,
    Seconds,
    check_integer,
    check_seconds,
    in_seconds,
)
from ackq.core.failure import as_text, describe
from ackq.errors import ConfigurationError
from ackq.setting_types import check_fields
from ackq.worker.verdicts import Again, Reject, Release, Verdict, check_blocking, checked_delay

#: Steps of the jitter. Messages that fail together with the same step are nacked in one call.
JITTER_STEPS = 8
#: Longest reason that is kept, in characters.
MAX_REASON = 1000
#: Longest delay that a handler can ask for, in seconds: 31 years. Longer ones are cut to it.
MAX_DELAY = 1e9
#: Deliveries that a worker allows if its queue sets no limit. With the default backoff they take
#: about an hour: longer than most outages, and a poison message still ends.
MAX_RECEIVES = 25
#: Why a message is dead after its last permitted delivery, as in the scripts.
NO_MORE_RECEIVES = "max receives"
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
    base: Seconds = 1.0
    #: Growth from one failure to the next. Defaults to 2.
    factor: float = 2.0
    #: Longest delay. Defaults to 300 seconds.
    limit: Seconds = 300.0
    #: Largest part of the delay to subtract at random, 0 to 1. Defaults to 0.5.
    jitter: float = 0.5

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            ConfigurationError: names the setting and its value.
        """
        check_fields(self, "backoff.")
        check_seconds(self.base, "backoff.base", zero=True)
        check_seconds(self.limit, "backoff.limit", zero=True)
        if not 1 <= self.factor <= 100 or not 0 <= self.jitter <= 1:
            raise ConfigurationError("backoff.factor is 1 to 100 and backoff.jitter 0 to 1")

    def delay(self, receive_count: int, chance: float) -> float:
        """Return the seconds to wait; ``chance`` is a random number from 0 to 1."""
        longest, first = in_seconds(self.limit), in_seconds(self.base)
        delay = min(longest, first * self.factor ** min(receive_count - 1, 60))
        step = math.floor(chance * JITTER_STEPS) / JITTER_STEPS
        return delay * (1 - self.jitter * step)


@dataclass(frozen=True, slots=True)
class Terms:
    """What applies to one message instead of the settings of its worker and its queue.

    A handler that knows what kind of message it has sets ``message.terms``, before anything that
    may fail or take long. None in a field: the setting of the worker or queue applies.
    """

    #: Deliveries after which the message goes to the dead letters. The limit of the queue or the
    #: worker applies too, if it is lower.
    max_receives: int | None = None
    #: Seconds that the handler may take.
    time_limit: float | None = None
    #: How long the message waits after its handler failed.
    backoff: Backoff | None = None
    #: Whether a message whose handler raised this error goes to the dead letters at once.
    is_final: Callable[[BaseException], bool] | None = None
    #: How much of the handler's error to store.
    record_errors: RecordErrors | None = None
    #: The function that handles it: an error's place is looked for in its package.
    function: Callable[..., Any] | None = None
    #: The kind of work, for metrics. A name that producers can choose freely would make too many.
    task: str = ""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            ConfigurationError: names the field.
        """
        check_fields(self, "terms.")
        if self.max_receives is not None:
            check_integer(self.max_receives, "terms.max_receives", 1, 1_000_000)
        if self.time_limit is not None:
            check_seconds(self.time_limit, "terms.time_limit")
        if self.is_final is not None:
            check_blocking(self.is_final, "terms.is_final")


#: Every setting of the worker and the queue.
USUAL = Terms()


class Settlement(NamedTuple):
    """How to settle a message that is not acked."""

    verb: str  #: "nack", "reject", "release", or "pause": release it, and pause its group as long
    argument: float | str = 0.0  #: seconds of delay, or a reason


def settlement_of(
    error: BaseException,
    receive_count: int,
    backoff: Backoff,
    chance: float,
    terms: Terms = USUAL,
) -> Settlement:
    """Return how to settle a message whose handler raised ``error``.

    Raises:
        BaseException: what a backoff or a verdict of the user's own raises.
    """
    settlement = _asked_for(error) or _after(error, receive_count, backoff, chance, terms)
    most = terms.max_receives
    if settlement.verb == "nack" and most is not None and receive_count >= most:
        return Settlement("reject", NO_MORE_RECEIVES)
    return settlement


def _asked_for(error: BaseException) -> Settlement | None:
    """Return what a verdict asks for. None: the error is no verdict, or one without a delay."""
    if not issubclass(type(error), Verdict):
        return None  # whose class may fail when it is matched
    match error:
        case Release(delay=delay, group=pauses):
            return Settlement("pause" if pauses is True else "release", _delay(delay, error))
        case Reject(reason=reason):
            return Settlement("reject", as_text(reason)[:MAX_REASON])
        case Again(delay=delay) if delay is not None:
            return Settlement("nack", _delay(delay, error))
    return None


def _after(
    error: BaseException, receive_count: int, backoff: Backoff, chance: float, terms: Terms
) -> Settlement:
    verdict = issubclass(type(error), Verdict)
    if not verdict and terms.is_final is not None and terms.is_final(error):
        return Settlement("reject", f"not retried: {describe(error).name}")
    chosen = terms.backoff or backoff
    return Settlement("nack", _delay(chosen.delay(receive_count, chance), chosen))


def _delay(delay: Any, of: object) -> float:
    # An attribute of a verdict, or the result of a backoff, of the user's own.
    return float(min(checked_delay(delay, type(of).__name__), MAX_DELAY))
