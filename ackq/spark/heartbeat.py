"""Keeps the leases of a query's claims alive, between its batches and during them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ackq.errors import Fenced, redact

_LOG = logging.getLogger("ackq.spark")

#: Seconds between two beats at most.
LONGEST_INTERVAL = 60.0
#: Seconds until the next attempt after one that failed.
AFTER_FAILURE = 1.0


class Heartbeat:
    """Calls ``beat`` on a thread that dies with its process."""

    def __init__(self, beat: Callable[[], None], timeout: float) -> None:
        """Start to beat: three times per ``timeout`` seconds, and once a minute at least."""
        self._beat = beat
        self._interval = min(timeout / 3, LONGEST_INTERVAL)
        self._stopped = threading.Event()
        self._fenced: Fenced | None = None
        threading.Thread(target=self._run, name="ackq-heartbeat", daemon=True).start()

    def check(self) -> None:
        """Raise what a beat met that ends the query.

        Raises:
            Fenced: another query took the group over.
        """
        if self._fenced is not None:
            raise self._fenced

    def stop(self) -> None:
        """Beat no more."""
        self._stopped.set()

    def _run(self) -> None:
        pause = self._interval
        while not self._stopped.wait(pause):
            pause = self._interval
            try:
                self._beat()
            except Fenced as error:
                self._fenced = error
                return
            except Exception as error:  # whatever it is, the leases outlive some beats
                _LOG.warning("could not renew the leases of claims: %s", redact(str(error)))
                pause = min(AFTER_FAILURE, self._interval)
