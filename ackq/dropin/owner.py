"""The thread, task or greenlet that popped messages, and whether it is done with them."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from types import FrameType
from typing import Any, TypeAlias

from ackq.dropin.call_stack import CallStack, outermost

#: An asyncio task or a greenlet in which a blocking client is used.
Task: TypeAlias = Any


def running_task() -> Task | None:
    """Return the asyncio task or the greenlet that is running, or None in a plain thread."""
    loop = asyncio._get_running_loop()
    if loop is not None and (task := asyncio.current_task(loop)) is not None:
        return task
    if (greenlets := sys.modules.get("greenlet")) is None:
        return None
    current = greenlets.getcurrent()
    return current if current.parent is not None else None


class Caller:
    """The function of the current thread or task that calls a method of the drop-in."""

    __slots__ = ("at", "frame", "task")

    def __init__(self, frame: FrameType) -> None:
        """Remember ``frame``, of the method that is called."""
        self.frame, self.task = frame, running_task()
        #: When the call was made.
        self.at = time.monotonic()


class Owner(CallStack):
    """The thread or task that popped, with the functions that were running in it."""

    __slots__ = ("task", "thread")

    def __init__(self, caller: Caller) -> None:
        """Remember the current thread and task, and its functions."""
        super().__init__(caller.frame, outermost(caller.task))
        self.thread, self.task = threading.current_thread(), caller.task

    def is_current(self) -> bool:
        """Return whether this thread or task is running now."""
        return threading.current_thread() is self.thread and running_task() is self.task

    def ended(self) -> bool:
        """Return whether the thread or task has ended."""
        if self.task is None:
            return not self.thread.is_alive()
        if isinstance(self.task, asyncio.Future):
            return self.task.done()
        return bool(self.task.dead)
