"""What a consumer does with one batch: which messages to settle, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ackq.delay.messages import DelayedMessage

#: Seconds of handling after which what is done is settled, so that a crash repeats little.
SETTLE_AFTER = 0.1
#: Longest wait of one take in seconds, so that a consumer notices that it is to stop.
LONGEST_TAKE = 1.0


class Batch:
    """The messages of one take. Times are seconds by a monotonic clock.

    Args:
        messages: in the order in which they are handled.
        lease: seconds that their leases last.
        now: when the take began, so that a lease is never thought longer than it is.
    """

    def __init__(self, messages: Sequence[DelayedMessage], lease: float, now: float) -> None:
        self._waiting = list(reversed(messages))
        self._lease = lease
        self._leased_at = self._settled_at = now
        self.done: list[DelayedMessage] = []
        self.failed: list[DelayedMessage] = []

    def __iter__(self) -> Iterator[DelayedMessage]:
        """Yield what is to be handled next; a message that was lost meanwhile is left out."""
        while self._waiting:
            if not self._waiting[-1].lease_lost:
                yield self._waiting[-1]
            self._waiting.pop()

    @property
    def waiting(self) -> tuple[DelayedMessage, ...]:
        """What is held and not handled yet, the one in hand included."""
        return tuple(each for each in reversed(self._waiting) if not each.lease_lost)

    def tired(self, now: float) -> bool:
        """Return whether half of the leases has passed, so that they must be extended."""
        return now - self._leased_at >= self._lease / 2

    def extended(self, now: float) -> None:
        """Note that the leases begin anew."""
        self._leased_at = now

    def unsettled(self, now: float) -> bool:
        """Return whether it is time to settle what is done."""
        return now - self._settled_at >= SETTLE_AFTER

    def settle(self, now: float) -> tuple[Sequence[DelayedMessage], Sequence[DelayedMessage]]:
        """Return what to delete and what to give back, and forget it."""
        done, failed, self.done, self.failed = self.done, self.failed, [], []
        self._settled_at = now
        return done, failed
