"""Timeouts, and what keeps a wait short and apart from others."""

from __future__ import annotations

import math

from ackq.errors import ConfigurationError

#: Seconds between two looks at a paused queue.
PAUSED_POLL = 0.5


#: Seconds of jitter on a wait, so that one deadline does not wake every waiter at once.
WAIT_JITTER = 0.05


#: Shortest BLMOVE timeout in seconds: Redis 6.2 takes a millisecond and less for "for ever".
SHORTEST_BLOCK = 0.01


def is_patient(timeout: float | None) -> float:
    """Return the seconds to wait, 0 for None.

    Raises:
        ConfigurationError: neither None nor seconds from 0.
    """
    if timeout is None:
        return 0.0
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not timeout >= 0:
        raise ConfigurationError(
            f"timeout is None (at once), seconds from 0, or math.inf, not {timeout!r}"
        )
    return min(float(timeout), math.inf)
