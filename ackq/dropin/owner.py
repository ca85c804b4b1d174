"""The thread that popped messages, and whether it is done with them."""

from __future__ import annotations

import threading
from types import FrameType

from ackq.dropin.call_stack import CallStack


class Caller:
    """The function of the current thread that calls a method of the drop-in."""

    __slots__ = ("frame",)

    def __init__(self, frame: FrameType) -> None:
        """Remember ``frame``, of the method that is called."""
        self.frame = frame


class Owner(CallStack):
    """The thread that popped, with the functions that were running in it."""

    __slots__ = ("thread",)

    def __init__(self, caller: Caller) -> None:
        """Remember the current thread and its functions."""
        super().__init__(caller.frame, caller.frame.f_globals)
        self.thread = threading.current_thread()

    def is_current(self) -> bool:
        """Return whether this thread is running now."""
        return threading.current_thread() is self.thread

    def ended(self) -> bool:
        """Return whether the thread has ended."""
        return not self.thread.is_alive()
