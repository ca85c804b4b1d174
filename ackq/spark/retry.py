"""Try again while Redis is away: an exception in a callback would end the query."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import redis
from redis.exceptions import AuthenticationError, AuthorizationError, OutOfMemoryError

from ackq.core.retries import PASSING
from ackq.errors import redact

T = TypeVar("T")
_LOG = logging.getLogger("ackq.spark")

#: What may pass by itself: a restart, a failover, a network that is down.
_AWAY = (redis.ConnectionError, redis.TimeoutError, OSError, OutOfMemoryError, *PASSING)
#: These are connection errors too, and waiting does not help.
_FINAL = (AuthenticationError, AuthorizationError)
#: Seconds before the second attempt, and between later ones at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


def may_pass(error: Exception) -> bool:
    """Return whether to try again helps."""
    return isinstance(error, _AWAY) and not isinstance(error, _FINAL)


def patiently(call: Callable[[], T], patience: float) -> T:
    """Return what ``call`` returns, which does no harm if it is repeated.

    Args:
        call: one operation on Redis.
        patience: seconds after which the last error is raised.
    """
    until = time.monotonic() + patience
    pause = FIRST_PAUSE
    while True:
        try:
            return call()
        except Exception as error:
            if not may_pass(error) or time.monotonic() + pause > until:
                raise
            _LOG.warning("Redis is away, trying again: %s", redact(str(error)))
        time.sleep(pause)
        pause = min(LONGEST_PAUSE, 2 * pause)
