"""The delay before a nacked message is delivered again."""

from __future__ import annotations

#: Default nack delay in seconds after the first delivery; it doubles with each delivery.
BACKOFF_BASE = 1.0


#: Longest default nack delay in seconds.
MAX_BACKOFF = 300.0


def backoff(receive_count: int) -> float:
    """Return the default nack delay in seconds: 1, 2, 4, ... at most 300."""
    delay: float = BACKOFF_BASE * 2 ** min(receive_count - 1, 20)
    return min(MAX_BACKOFF, delay)
