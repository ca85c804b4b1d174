"""`IdleTimer`: does something when nothing has happened for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class IdleTimer:
    """Calls a function, in a thread, once `touch` has not been called for some time.

    There is a thread only from a touch until that call. Safe to share between threads.
    """

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        """Prepare.

        Args:
            seconds: the time without a touch.
            act: is called then. The next touch starts the timer again.
        """
        self._seconds = seconds
        self._act = act
        self._lock = threading.Lock()
        self._touched = 0.0
        self._timer: threading.Timer | None = None

    def touch(self) -> None:
        """Note that something happens."""
        with self._lock:
            self._touched = time.monotonic()
            if self._timer is None:
                self._start(self._seconds)

    def cancel(self) -> None:
        """Do not call the function, until the next touch."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _start(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._fire)
        self._timer.daemon = True
        self._timer.start()

    def _fire(self) -> None:
        with self._lock:
            if self._timer is not threading.current_thread():
                return  # cancelled at this moment
            left = self._touched + self._seconds - time.monotonic()
            if left > 0:
                self._start(left)
                return
            self._timer = None
        self._act()
