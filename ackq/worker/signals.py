"""The signals that stop a worker."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

#: Handled even if whatever started this program ignored them, as a shell does for ``&``.
ALWAYS = (signal.SIGTERM, signal.SIGINT)
#: Handled unless they are ignored, as by ``nohup``, or handled by the program.
BY_DEFAULT = (signal.SIGHUP, signal.SIGQUIT)


@contextlib.contextmanager
def stopping_on_signals(stop: Callable[[], None], supervised: bool = False) -> Iterator[None]:
    """Call ``stop`` for signals, at most twice; restore the previous handlers at the end.

    The first SIGTERM, SIGINT or SIGHUP stops, the second ends the grace. SIGQUIT does both at once.
    A signal after these kills the process.

    Do nothing outside the main thread: Python handles signals only there.

    Args:
        stop: what to call.
        supervised: whether a parent decides when the grace ends. It sends SIGINT then, and kills
            the process if need be. SIGTERM or SIGHUP may come from others as well, such as a
            service manager that signals all processes, so however often they come, they stop.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    calls = 0

    def receive(number: int, frame: FrameType | None) -> None:
        nonlocal calls
        at_once = number == signal.SIGQUIT or (supervised and number == signal.SIGINT)
        wanted = 2 if at_once else 1 if supervised else calls + 1
        while calls < wanted:
            calls += 1
            stop()
        if calls >= 2 and not supervised:
            for known in handled:
                signal.signal(known, signal.SIG_DFL)

    free = [each for each in BY_DEFAULT if signal.getsignal(each) == signal.SIG_DFL]
    handled = (*ALWAYS, *free)
    before = {known: signal.signal(known, receive) for known in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
