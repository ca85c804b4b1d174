"""Reads that are bounded in time, whatever the server does: `in_time`, `SharedRead`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


def in_time(seconds: float, read: Callable[[], T]) -> T:
    """Return what ``read`` returns. It runs in a thread of its own, to its end in any case.

    Raises:
        TimeoutError: it takes longer than this.
    """
    return SharedRead(read).get(seconds)


class SharedRead(Generic[T]):
    """Reads for many who ask at the same time: one read for all who came before it began.

    One read runs at a time. A caller that asks during a read gets the result of the next one. So
    nobody waits for more than two reads, and no figure is older than the request for it.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        """Prepare.

        Args:
            read: is called in a thread of its own.
        """
        self._read = read
        self._lock = threading.Lock()
        self._next: Future[T] | None = None
        self._current: Future[T] | None = None
        self._running = False

    def get(self, within: float | None, *, join: bool = False) -> T:
        """Return the result of the next read; what it raises is raised here.

        Args:
            within: most seconds to wait; None: no limit. The read goes on after that.
            join: take the result of a read that has begun before, and wait for no other. Defaults
                to False.

        Raises:
            TimeoutError: the read has not ended in this time.
        """
        with self._lock:
            if join and self._current is not None:
                result = self._current
            else:
                result = self._next = self._next or Future()
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="ackq-read", daemon=True).start()
        return result.result(within)

    def _run(self) -> None:
        while True:
            with self._lock:
                result = self._current = self._next
                self._next = None
                if result is None:
                    self._running = False
                    return
            try:
                snapshot = self._read()
            except BaseException as error:
                result.set_exception(error)
            else:
                result.set_result(snapshot)
