"""The decisions of a worker as plain values, without clock, queue or threads."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ackq.errors import ConfigurationError
from ackq.queue.messages import Message
from ackq.worker.verdicts import Reject, Release, Retry

#: Seconds of work that a worker holds beyond running handlers: long enough to hide a round trip,
#: short enough not to delay a pause, a stop or an idle worker elsewhere.
BUFFERED_SECONDS = 0.1
#: Weight of the latest duration in the moving average.
AVERAGE_WEIGHT = 0.1
#: Steps of the jitter. Messages that fail together with the same step are nacked in one call.
JITTER_STEPS = 8
#: Longest reason that is kept, in characters.
REASON_LIMIT = 1000
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
    return str(reason)[:REASON_LIMIT].encode(errors="replace").decode()


def _is_delay(delay: Any) -> bool:
    # A verdict must not fail, so an invalid delay counts as no delay given.
    return isinstance(delay, int | float) and 0 <= delay < 1e9


class Pace:
    """Decide how many messages to hold beyond running handlers, by how long handlers take.

    With a slow handler, the worker holds no messages in advance; with a quick one, ``prefetch``.
    """

    __slots__ = ("_concurrency", "_prefetch", "seconds")

    def __init__(self, concurrency: int, prefetch: int) -> None:
        self._concurrency = concurrency
        self._prefetch = prefetch
        #: Moving average of the durations; None before the first.
        self.seconds: float | None = None

    def finished(self, seconds: float) -> None:
        """Record how long a handler took."""
        mean = self.seconds
        self.seconds = seconds if mean is None else mean + (seconds - mean) * AVERAGE_WEIGHT

    def slowed(self, seconds: float) -> None:
        """Record that messages waited this long in the worker, which had taken too many."""
        self.seconds = max(seconds, self.seconds or 0.0)

    @property
    def spare(self) -> int:
        """How many messages may wait beyond those being handled."""
        if self.seconds is None:
            return 0
        if self.seconds * self._prefetch <= self._concurrency * BUFFERED_SECONDS:
            return self._prefetch
        return int(self._concurrency * BUFFERED_SECONDS / self.seconds)


class QueueOrder:
    """Choose the queue to take from next: in strict order, or by weight (stride scheduling)."""

    def __init__(self, weights: Iterable[float] | None, lanes: int) -> None:
        self._weights = list(weights) if weights is not None else None
        self._progress = [0.0] * lanes

    @property
    def strict(self) -> bool:
        """Whether the first lane that has messages always goes first."""
        return self._weights is None

    def order(self) -> Iterator[int]:
        """Yield the lanes in the order in which to try them now."""
        if self._weights is None:
            return iter(range(len(self._progress)))
        return iter(sorted(range(len(self._progress)), key=self._progress.__getitem__))

    def took(self, lane: int, messages: int) -> None:
        """Record how many messages were taken from a lane."""
        if self._weights is not None:
            self._progress[lane] += messages / self._weights[lane]

    def returned(self, lane: int, active: Iterable[int]) -> None:
        """Record that a lane has messages again. It gets no credit for the turns it missed."""
        least = min((self._progress[each] for each in active), default=self._progress[lane])
        self._progress[lane] = max(self._progress[lane], least)


class StrictBuffer:
    """Messages that wait in the worker, those of the first queue before those of the next.

    Like those of a deque, each operation is safe to call from several threads at once.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._by_name: dict[str, deque[Message]] = {name: deque() for name in names}
        self._all = tuple(self._by_name.values())

    def add_shard(self, name: str, queue: str) -> None:
        """Let messages of shard ``name`` wait with those of the queue."""
        self._by_name[name] = self._by_name[queue]

    def extend(self, messages: Iterable[Message]) -> None:
        """Add messages behind those of the same queue."""
        for message in messages:
            self._by_name[message.queue].append(message)

    def popleft(self) -> Message:
        """Remove and return the next message.

        Raises:
            IndexError: the buffer is empty.
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
        """Remove this message.

        Raises:
            ValueError: the message is not in the buffer.
        """
        self._by_name[message.queue].remove(message)

    def copy(self) -> list[Message]:
        """Return the waiting messages."""
        return list(self)


def check_seconds(value: Any, name: str, *, zero: bool = False) -> None:
    """Raise ConfigurationError unless ``value`` is a valid number of seconds."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 if zero else 1e-3) <= value <= 1e9:
        raise ConfigurationError(
            f"{name} is {'0' if zero else '0.001'} to 1e9 seconds, not {value!r}"
        )
