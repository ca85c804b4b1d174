"""Renew the leases of messages in flight, in a background thread."""

from __future__ import annotations

import logging
import threading
import time

from ackq.dropin.in_flight import InFlight

log = logging.getLogger("ackq.dropin")

#: Longest time, in seconds, between two checks of whether a thread has ended.
MAX_TICK = 1.0


class LeaseRenewal:
    """A daemon thread that renews the leases of all messages in flight.

    A process that hangs as a whole, or is killed, stops renewing, so its messages are
    redelivered. The thread ends when nothing is in flight, and starts again when needed.
    """

    def __init__(self, visibility_timeout: float) -> None:
        self._tick = min(MAX_TICK, visibility_timeout / 6)
        self._all_in_flight: set[InFlight] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, in_flight: InFlight) -> None:
        """Renew the leases in ``in_flight`` for as long as it holds messages."""
        with self._lock:
            self._all_in_flight.add(in_flight)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ackq-renew", daemon=True)
                self._thread.start()

    def all_in_flight(self) -> list[InFlight]:
        """Return the `InFlight` objects whose leases are being renewed."""
        with self._lock:
            return list(self._all_in_flight)

    def _run(self) -> None:
        while True:
            time.sleep(self._tick)
            idle = [in_flight for in_flight in self.all_in_flight() if not _tend(in_flight)]
            with self._lock:
                # Keep any that received messages in the meantime.
                self._all_in_flight -= {in_flight for in_flight in idle if not in_flight.messages}
                if not self._all_in_flight:
                    self._thread = None
                    return


def _tend(in_flight: InFlight) -> bool:
    try:
        return in_flight.tend()
    except UserWarning as warning:
        # The user turned warnings into errors. One must not end the renewals of other messages.
        log.warning("%s", warning)
        return True
