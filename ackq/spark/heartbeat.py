"""Renew the leases of a query's claims, between and during its batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ackq.errors import Fenced, redact

_LOG = logging.getLogger("ackq.spark")

#: Maximum seconds between two heartbeats.
MAX_INTERVAL = 60.0
#: Seconds between a failed attempt and the next one.
AFTER_FAILURE = 1.0


class Heartbeat:
    """Calls ``renew`` regularly on a daemon thread."""

    def __init__(self, renew: Callable[[], None], timeout: float) -> None:
        """Start: three heartbeats per ``timeout`` seconds, at least one a minute."""
        self._renew = renew
        self._interval = min(timeout / 3, MAX_INTERVAL)
        self._stopped = threading.Event()
        self._fenced: Fenced | None = None
        threading.Thread(target=self._run, name="ackq-heartbeat", daemon=True).start()

    def check(self) -> None:
        """Raise the error of a heartbeat that must end the query.

        Raises:
            Fenced: another query took over the group.
        """
        if self._fenced is not None:
            raise self._fenced

    def stop(self) -> None:
        """Stop the heartbeat."""
        self._stopped.set()

    def _run(self) -> None:
        pause = self._interval
        while not self._stopped.wait(pause):
            pause = self._interval
            try:
                self._renew()
            except Fenced as error:
                self._fenced = error
                return
            except Exception as error:  # the leases outlive a few missed heartbeats
                _LOG.warning("could not renew the leases of claims: %s", redact(str(error)))
                pause = min(AFTER_FAILURE, self._interval)
