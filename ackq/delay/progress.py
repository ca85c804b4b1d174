"""How far the handler of a delay queue is with a batch: what to settle and extend, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ackq.delay.messages import DelayedMessage

#: Seconds of handling before handled messages are settled, so that a crash repeats few.
SETTLE_AFTER = 0.1
#: Longest wait of one take in seconds, so that a consumer notices ``stop``.
MAX_TAKE = 1.0


class BatchProgress:
    """The messages of one take. Times are seconds by a monotonic clock.

    Args:
        messages: the messages, in handling order.
        lease: seconds that their leases last.
        now: when the take began, so that a lease is never overestimated.
    """

    def __init__(self, messages: Sequence[DelayedMessage], lease: float, now: float) -> None:
        self._waiting = list(reversed(messages))
        self._lease = lease
        self._leased_at = self._settled_at = now
        self.done: list[DelayedMessage] = []
        self.failed: list[DelayedMessage] = []

    def __iter__(self) -> Iterator[DelayedMessage]:
        """Yield the messages to handle, skipping those whose leases were lost."""
        while self._waiting:
            if not self._waiting[-1].lease_lost:
                yield self._waiting[-1]
            self._waiting.pop()

    @property
    def waiting(self) -> tuple[DelayedMessage, ...]:
        """The leased messages that are not handled yet, including the current one."""
        return tuple(message for message in reversed(self._waiting) if not message.lease_lost)

    def must_extend(self, now: float) -> bool:
        """Return whether half of the lease time has passed, so that leases must be extended."""
        return now - self._leased_at >= self._lease / 2

    def extended(self, now: float) -> None:
        """Record that the leases were extended."""
        self._leased_at = now

    def must_settle(self, now: float) -> bool:
        """Return whether it is time to settle the handled messages."""
        return now - self._settled_at >= SETTLE_AFTER

    def settle(self, now: float) -> tuple[Sequence[DelayedMessage], Sequence[DelayedMessage]]:
        """Return the messages to delete and to nack, and clear both lists."""
        done, failed, self.done, self.failed = self.done, self.failed, [], []
        self._settled_at = now
        return done, failed
