"""What a worker decides, with no clock, no queue and no thread in sight."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ackq.errors import ConfigurationError
from ackq.queue.messages import Message
from ackq.worker.verdicts import Reject, Release, Retry

#: Seconds of work that a worker holds beyond what runs: long enough to hide a round trip, short
#: enough that a pause, a stop or an idle worker elsewhere is not kept waiting.
HORIZON = 0.1
#: Weight of the latest duration in the running mean.
RECENT = 0.1
#: Steps of the jitter. Messages that fail together in one step are given back in one call.
JITTER_STEPS = 8
#: Characters of a reason that are kept.
REASON_LIMIT = 1000
#: Deliveries that a worker allows where its queue sets no limit. With the default backoff they span
#: about an hour: longer than most outages of what a handler needs, and poison ends all the same.
MAX_RECEIVES = 25
#: The part of a lease that may pass before it is renewed.
RENEW_AFTER = 1 / 3


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a message waits that its handler failed on: exponential, with jitter.

    The n-th receive is followed by ``base * factor ** (n - 1)`` seconds, at most ``limit``, of
    which up to the share ``jitter`` is taken away at random, so that what failed together does
    not come back together.
    """

    #: Seconds after the first failure. Defaults to 1 second.
    base: float = 1.0
    #: From one failure to the next. Defaults to 2.
    factor: float = 2.0
    #: Seconds at most. Defaults to 300 seconds.
    limit: float = 300.0
    #: Share of the delay that chance may take away, 0 to 1. Defaults to 0.5.
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
        """Return the seconds to wait; ``chance`` is drawn from 0 to 1."""
        delay: float = min(self.limit, self.base * self.factor ** min(receive_count - 1, 60))
        step = math.floor(chance * JITTER_STEPS) / JITTER_STEPS
        return delay * (1 - self.jitter * step)


class Settlement(NamedTuple):
    """What becomes of a message that was not simply done."""

    verb: str  #: "nack", "reject" or "release"
    argument: float | str | None = None  #: seconds of delay, or a reason


def settlement_of(
    error: BaseException, receive_count: int, backoff: Backoff, chance: float
) -> Settlement:
    """Return what becomes of a message whose handler raised ``error``."""
    match error:
        case Release():
            return Settlement("release")
        case Reject(reason=reason):
            return Settlement("reject", _storable(reason))
        case Retry(delay=delay) if delay is not None and _is_delay(delay):
            return Settlement("nack", float(delay))
    return Settlement("nack", backoff.delay(receive_count, chance))


def _storable(reason: Any) -> str:
    return str(reason)[:REASON_LIMIT].encode(errors="replace").decode()


def _is_delay(delay: Any) -> bool:
    # A verdict must not fail: a delay that makes no sense counts as none given.
    return isinstance(delay, int | float) and 0 <= delay < 1e9


class Pace:
    """How many messages to hold beyond those that run, from how long handlers take.

    A slow handler makes its worker take one message at a time; a quick one, ``prefetch``.
    """

    __slots__ = ("_concurrency", "_prefetch", "seconds")

    def __init__(self, concurrency: int, prefetch: int) -> None:
        self._concurrency = concurrency
        self._prefetch = prefetch
        #: Running mean of the durations; None before the first.
        self.seconds: float | None = None

    def finished(self, seconds: float) -> None:
        """Note how long a handler took."""
        mean = self.seconds
        self.seconds = seconds if mean is None else mean + (seconds - mean) * RECENT

    def slowed(self, seconds: float) -> None:
        """Note that messages have waited this long in the worker: it had taken too many."""
        self.seconds = max(seconds, self.seconds or 0.0)

    @property
    def spare(self) -> int:
        """How many messages may wait beyond those that run."""
        if self.seconds is None:
            return 0
        if self.seconds * self._prefetch <= self._concurrency * HORIZON:
            return self._prefetch
        return int(self._concurrency * HORIZON / self.seconds)


class Turns:
    """Whose turn it is to be taken from: in strict order, or by weight (stride scheduling)."""

    def __init__(self, weights: Iterable[float] | None, lanes: int) -> None:
        self._weights = list(weights) if weights is not None else None
        self._passes = [0.0] * lanes

    @property
    def strict(self) -> bool:
        """Whether the first lane that has messages always goes first."""
        return self._weights is None

    def order(self) -> Iterator[int]:
        """Yield the lanes in the order in which they are to be asked now."""
        if self._weights is None:
            return iter(range(len(self._passes)))
        return iter(sorted(range(len(self._passes)), key=self._passes.__getitem__))

    def took(self, lane: int, messages: int) -> None:
        """Note that so many messages came from a lane."""
        if self._weights is not None:
            self._passes[lane] += messages / self._weights[lane]

    def returned(self, lane: int, active: Iterable[int]) -> None:
        """Note that a lane has messages again: what it did not use meanwhile is forfeited."""
        least = min((self._passes[each] for each in active), default=self._passes[lane])
        self._passes[lane] = max(self._passes[lane], least)


class StrictBuffer:
    """Messages that wait in the worker, those of the first queue before those of the next.

    Each operation is safe to call from several threads at once, like those of a deque.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._by_name: dict[str, deque[Message]] = {name: deque() for name in names}
        self._all = tuple(self._by_name.values())

    def extend(self, messages: Iterable[Message]) -> None:
        """Add messages behind those of the same queue."""
        for message in messages:
            self._by_name[message.queue].append(message)

    def popleft(self) -> Message:
        """Take the next one out.

        Raises:
            IndexError: there is none.
        """
        for waiting in self._all:
            try:
                return waiting.popleft()
            except IndexError:
                continue
        raise IndexError

    def __len__(self) -> int:
        return sum(map(len, self._all))

    def __iter__(self) -> Iterator[Message]:
        for waiting in self._all:
            yield from waiting.copy()

    def remove(self, message: Message) -> None:
        """Take this one out.

        Raises:
            ValueError: it is not there.
        """
        self._by_name[message.queue].remove(message)

    def copy(self) -> list[Message]:
        """Return what waits."""
        return list(self)


def check_seconds(value: Any, name: str, *, zero: bool = False) -> None:
    """Raise ConfigurationError unless ``value`` is a number of seconds that can be waited."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 if zero else 1e-3) <= value <= 1e9:
        raise ConfigurationError(
            f"{name} is {'0' if zero else '0.001'} to 1e9 seconds, not {value!r}"
        )
