"""Claim the next batch while Spark reads the current one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ackq.core.claim_groups import Claim


class ClaimAhead:
    """A claim that is made on a thread of its own.

    The thread is a daemon: if the process ends meanwhile, the messages claimed so far are a batch
    for the next driver, as after a death during any claim.
    """

    def __init__(self, claim: Callable[[], Claim | None]) -> None:
        """Start to claim."""
        self._claim = claim
        self._claimed: Claim | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="ackq-claim", daemon=True)
        self._thread.start()

    def result(self) -> Claim | None:
        """Wait for the claim; None if no message was ready.

        Raises:
            BaseException: the error of the claim.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._claimed

    def _run(self) -> None:
        try:
            self._claimed = self._claim()
        except BaseException as error:
            self._error = error
