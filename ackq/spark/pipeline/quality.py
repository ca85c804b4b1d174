"""Stop a run if too many messages are rejected, before their batch is written."""

from __future__ import annotations

from collections import deque

#: Fewer messages prove nothing.
MIN_MESSAGES = 100


class TooManyRejected(Exception):
    """More messages were rejected than the configuration allows."""


class Quality:
    """Compares the share of rejected messages with its limit.

    The share is that of the current batch and, if it has fewer than `MIN_MESSAGES`, of the batches
    of this run before it.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        #: Messages and rejected messages of recent batches, at least `MIN_MESSAGES` if there are.
        self._recent: deque[tuple[int, int]] = deque()

    def check(self, rows: int, rejected: int) -> None:
        """Count a batch that is not written yet.

        Raises:
            TooManyRejected: the share is above the limit.
        """
        if self._limit is None:
            return
        self._recent.append((rows, rejected))
        while sum(rows for rows, _ in self._recent) - self._recent[0][0] >= MIN_MESSAGES:
            self._recent.popleft()
        total, bad = (sum(counts) for counts in zip(*self._recent, strict=True))
        if total >= MIN_MESSAGES and bad > self._limit * total:
            raise TooManyRejected(
                f"{bad:,} of the last {total:,} messages are rejected, {bad / total:.1%}, and"
                f" [rejects] stop_above is {self._limit:.1%}. No row of the batch was written."
                " Correct the schema and the checks, or raise stop_above"
            )
