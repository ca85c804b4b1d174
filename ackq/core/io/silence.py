"""The limit on how long asyncio exchanges may take, with one timer for all of them.

`asyncio.timeout` sets and cancels a timer for every request, which takes eight times as long as
this. Here all exchanges have the same limit, so they run out in the order in which they began, and
one timer for the oldest is enough.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class Silence:
    """Makes limits for the tasks of one event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Whether a timer is set in that loop.
        self._is_timed = False
        #: The limits in use, oldest first.
        self._running: dict[Limit, None] = {}

    def limit(self) -> Limit:
        """Return a context manager that raises `TimeoutError` if its block takes too long."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._is_timed, self._running = loop, False, {}
        limit = Limit(self._running, loop.time() + self._seconds)
        if not self._is_timed:
            self._is_timed = True
            loop.call_at(limit.deadline, self._check)
        return limit

    def _check(self) -> None:
        """Cancel the blocks that took too long, and set the timer for the next one."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            return  # of an earlier loop
        now = loop.time()
        for limit in self._running:
            if limit.deadline > now:
                loop.call_at(limit.deadline, self._check)
                return
            limit.exceed()
        self._is_timed = False


class Limit:
    """Ends one block of the current task, as `asyncio.timeout` does."""

    __slots__ = ("_cancellations", "_is_exceeded", "_running", "_task", "deadline")

    def __init__(self, running: dict[Limit, None], deadline: float) -> None:
        self._running = running
        self._is_exceeded = False
        #: By the loop's clock.
        self.deadline = deadline

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancellations = task.cancelling()
        self._running[self] = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del self._running[self]
        if not self._is_exceeded:
            return
        # If others have cancelled the task too, it stays cancelled.
        is_alone = self._task.uncancel() <= self._cancellations
        if is_alone and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def exceed(self) -> None:
        """Cancel the task, which is inside the block. Only the first call has an effect."""
        if not self._is_exceeded:
            self._is_exceeded = True
            self._task.cancel()
