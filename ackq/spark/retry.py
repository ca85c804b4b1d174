"""Retry while Redis is unreachable, since an exception in a callback ends the query."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import redis
from redis.exceptions import AuthenticationError, AuthorizationError, OutOfMemoryError

from ackq.core.retries import TEMPORARY
from ackq.errors import redact

T = TypeVar("T")
_LOG = logging.getLogger("ackq.spark")

#: Errors that may be temporary: a restart, a failover, a network failure.
_TEMPORARY = (redis.ConnectionError, redis.TimeoutError, OSError, OutOfMemoryError, *TEMPORARY)
#: Connection errors that a retry cannot fix.
_FINAL = (AuthenticationError, AuthorizationError)
#: Seconds before the second attempt, and the maximum between later ones.
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0


def may_pass(error: Exception) -> bool:
    """Return whether a retry may help."""
    return isinstance(error, _TEMPORARY) and not isinstance(error, _FINAL)


def retry(call: Callable[[], T], timeout: float, server: str = "Redis") -> T:
    """Return the result of ``call``; repeat the call while Redis cannot be reached.

    Args:
        call: an operation on Redis that may safely be repeated.
        timeout: seconds after which the last error is raised.
        server: what is called, in log lines. Defaults to Redis.
    """
    until = time.monotonic() + timeout
    pause = FIRST_PAUSE
    while True:
        try:
            return call()
        except Exception as error:
            if not may_pass(error) or time.monotonic() + pause > until:
                raise
            _LOG.warning("%s cannot be reached, trying again: %s", server, redact(str(error)))
        time.sleep(pause)
        pause = min(MAX_PAUSE, 2 * pause)
