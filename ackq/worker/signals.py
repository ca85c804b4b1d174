"""SIGTERM and SIGINT: the first stops a worker, the second ends its grace, a third kills it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` for the first two signals; restore the previous handlers at the end.

    Do nothing outside the main thread: Python handles signals only there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received = 0

    def receive(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        stop()
        if received == 2:
            for known in SIGNALS:
                signal.signal(known, signal.SIG_DFL)

    before = {known: signal.signal(known, receive) for known in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
