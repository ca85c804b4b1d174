"""Reads a range from Redis in calls that are large enough to be cheap, and block nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ackq.spark.options import Reading
from ackq.spark.retry import patiently

#: Bytes that one call should bring.
TARGET = 1024 * 1024
#: Messages of the first call, which shows how long they are; and of any call at most.
FIRST, MOST = 500, 10_000


class Fetch:
    """The range ``start`` to ``start + rows - 1``."""

    def __init__(self, reading: Reading, start: int, rows: int) -> None:
        self._fixed = reading.fetch_size
        self._patience = reading.retry_timeout
        self._start = start
        self._stop = start + rows

    def slices(
        self, fetch: Callable[[int, int], Sequence[bytes]]
    ) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Yield where each slice starts, and what ``fetch(start, count)`` returned for it."""
        at = self._start
        size = self._fixed or FIRST
        while at < self._stop:
            count = min(size, self._stop - at)
            bodies = patiently(lambda at=at, count=count: fetch(at, count), self._patience)  # type: ignore[misc]
            yield at, bodies
            at += count
            if not self._fixed:
                size = _adapted(bodies)


def _adapted(bodies: Sequence[bytes]) -> int:
    """Return how many messages like these make up the target."""
    average = 1 + sum(map(len, bodies)) // max(1, len(bodies))
    return max(1, min(MOST, TARGET // average))
