"""What a handler may raise to say what becomes of its message. No errors: a family of their own."""

from __future__ import annotations


class Verdict(Exception):
    """The base of the verdicts. Returning is the verdict "done"; any other exception, "failed"."""


class Retry(Verdict):
    """Deliver the message again later. The receive counts, so ``max_receives`` holds.

    Args:
        delay: seconds until it is ready again, 0 and up. Defaults to the worker's backoff.
    """

    def __init__(self, delay: float | None = None) -> None:
        super().__init__(delay)
        self.delay = delay


class Reject(Verdict):
    """Put the message among the dead letters now.

    Args:
        reason: kept with the dead letter.
    """

    def __init__(self, reason: str = "rejected") -> None:
        super().__init__(reason)
        self.reason = reason


class Release(Verdict):
    """Give the message back at once as if it had not been taken: the receive does not count."""
