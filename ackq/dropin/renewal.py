"""Renew the leases of messages in flight, in a background thread."""

from __future__ import annotations

import logging
import threading
import time

from ackq.dropin.in_flight import InFlight

log = logging.getLogger("ackq.dropin")

#: Longest time, in seconds, between two checks of whether a thread has ended.
LONGEST_TICK = 1.0


class LeaseRenewal:
    """A daemon thread that renews the leases of all messages in flight.

    A process that hangs as a whole, or is killed, stops renewing, so its messages are
    redelivered. The thread ends when nothing is in flight, and starts again when needed.
    """

    def __init__(self, visibility_timeout: float) -> None:
        self._tick = min(LONGEST_TICK, visibility_timeout / 6)
        self._hands: set[InFlight] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, hand: InFlight) -> None:
        """Renew the leases in ``hand`` for as long as it holds messages."""
        with self._lock:
            self._hands.add(hand)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ackq-renew", daemon=True)
                self._thread.start()

    def hands(self) -> list[InFlight]:
        """Return the `InFlight` objects whose leases are being renewed."""
        with self._lock:
            return list(self._hands)

    def _run(self) -> None:
        while True:
            time.sleep(self._tick)
            idle = [hand for hand in self.hands() if not _tend(hand)]
            with self._lock:
                # Keep any that received messages in the meantime.
                self._hands -= {hand for hand in idle if not hand.messages}
                if not self._hands:
                    self._thread = None
                    return


def _tend(hand: InFlight) -> bool:
    try:
        return hand.tend()
    except UserWarning as warning:
        # The user turned warnings into errors. One must not end the renewals of other messages.
        log.warning("%s", warning)
        return True
