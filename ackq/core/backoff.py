"""How long a message waits before it is delivered again."""

from __future__ import annotations

#: Seconds that a nack without a delay waits after the first delivery; doubled by each further one.
BACKOFF_BASE = 1.0


#: Seconds that a nack without a delay waits at most.
BACKOFF_LIMIT = 300.0


def backoff(receive_count: int) -> float:
    """Return the seconds that a nack without a delay waits: 1, 2, 4, ... at most 300."""
    delay: float = BACKOFF_BASE * 2 ** min(receive_count - 1, 20)
    return min(BACKOFF_LIMIT, delay)
