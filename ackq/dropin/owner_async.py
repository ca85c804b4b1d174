"""The task that popped messages, and whether it is done with them."""

from __future__ import annotations

import asyncio
import sys
import time
from types import FrameType
from typing import Any

from ackq.dropin.call_stack import CallStack, outermost


class Caller:
    """The task that calls a method of the drop-in, and the function that does.

    The call is not always awaited there: ``asyncio.wait_for`` (before Python 3.12), ``gather``,
    ``shield`` and ``create_task`` start a task for it, which ends as soon as it has the message.
    So the message belongs to the calling task, which gets it from there and works on it.
    """

    __slots__ = ("_own", "_stack", "_task", "at")

    def __init__(self, frame: FrameType) -> None:
        """Remember the current task and its functions.

        Args:
            frame: of the method that is called.
        """
        self._own = frame.f_globals
        #: When the call was made.
        self.at = time.monotonic()
        try:
            self._task = asyncio.current_task()
        except RuntimeError:  # No event loop runs, as in asyncio.run(r.rpop("jobs")).
            self._task = None
        # Now: these functions refer to each other only while they run.
        self._stack = CallStack(frame, outermost(self._task))

    def consumer(self) -> asyncio.Task[Any] | None:
        """Return the task that works on the message: the running one, or the one it pops for."""
        running = asyncio.current_task()
        frame = outermost(running)
        if self._task is None or frame is None or frame.f_globals is not self._own:
            return running
        return self._task

    def stack(self) -> CallStack:
        """Return the functions of the `consumer`."""
        consumer = self.consumer()
        if consumer is self._task:
            return self._stack
        frame = sys._getframe()
        while frame.f_globals is not self._own and frame.f_back is not None:
            frame = frame.f_back
        return CallStack(frame, outermost(consumer))


class Owner:
    """The task that popped, with the functions that were running in it."""

    __slots__ = ("_stack", "task")

    def __init__(self, caller: Caller) -> None:
        """Remember the task that ``caller`` pops for, and its functions."""
        self.task = caller.consumer()
        self._stack = caller.stack()

    def is_current(self) -> bool:
        """Return whether this task is running now."""
        return asyncio.current_task() is self.task

    def ended(self) -> bool:
        """Return whether the task has ended."""
        return self.task is not None and self.task.done()

    def failed(self) -> bool:
        """Return whether the task, or a function in it, was cancelled or ended with an error."""
        # Not by task.exception(): a look at it would keep asyncio from reporting the error.
        return self._stack.failed()

    def done(self) -> bool:
        """Return whether the task has ended without failing."""
        return self.ended() and not self.failed()
