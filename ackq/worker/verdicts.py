"""Exceptions that a handler raises to choose how its message is settled. They are not errors."""

from __future__ import annotations

from ackq.config import Seconds, in_seconds


class Verdict(Exception):
    """The base class. Returning normally means done; any other exception means failed."""


class Retry(Verdict):
    """Redeliver the message later. The receive counts, so ``max_receives`` applies.

    Args:
        delay: seconds until it is ready again, 0 or more. Defaults to the worker's backoff.
    """

    def __init__(self, delay: Seconds | None = None) -> None:
        super().__init__(delay)
        self.delay = None if delay is None else in_seconds(delay)


class Reject(Verdict):
    """Move the message to the dead letters now.

    Args:
        reason: stored with the dead letter.
    """

    def __init__(self, reason: str = "rejected") -> None:
        super().__init__(reason)
        self.reason = reason


class Release(Verdict):
    """Return the message as if it had not been taken. The receive does not count.

    Args:
        delay: seconds until it is ready again. Defaults to 0, at once.
    """

    def __init__(self, delay: Seconds = 0.0) -> None:
        super().__init__(delay)
        self.delay = in_seconds(delay)
