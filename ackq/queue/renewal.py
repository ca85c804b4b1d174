"""Renews the lease of a `Queue.lease` block while the block runs, in a background thread."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ackq.errors import EXPECTED, LeaseLost, redact
from ackq.queue.messages import Message

log = logging.getLogger("ackq.queue")

#: Longest sleep of the thread in seconds: it ends within this time after the last block.
MAX_SLEEP = 5.0


class _Held:
    """A message whose block is running."""

    def __init__(self, message: Message, timeout: float) -> None:
        self.message = message
        self.timeout = timeout
        self.due = time.monotonic() + timeout / 3
        #: Locked while the lease is being renewed.
        self.lock = threading.Lock()
        self.pid = os.getpid()


class Renewer:
    """A daemon thread that renews leases, each after a third of its timeout.

    It starts with the first block and ends a few seconds after the last one. A block shorter than
    a third of its lease costs no request. If the process hangs as a whole or is killed, renewals
    stop, and its messages are delivered again.
    """

    def __init__(self, extend: Callable[[Message, float], object]) -> None:
        self._extend = extend
        self._begin()

    def _begin(self) -> None:
        """Reset the state, at first and in a forked child, which has no thread."""
        self._pid = os.getpid()
        self._wake = threading.Condition()
        self._held: set[_Held] = set()
        self._thread: threading.Thread | None = None
        self._next = 0.0

    @contextmanager
    def renewing(self, message: Message, timeout: float) -> Iterator[None]:
        """Renew a message's lease for ``timeout`` seconds at a time while the block runs."""
        held = _Held(message, timeout)
        self._add(held)
        try:
            yield
        finally:
            self._remove(held)

    def _add(self, held: _Held) -> None:
        if self._pid != os.getpid():
            self._begin()
        with self._wake:
            self._held.add(held)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ackq-lease", daemon=True)
                self._thread.start()
            elif held.due < self._next:
                self._wake.notify()

    def _remove(self, held: _Held) -> None:
        if held.pid != os.getpid():
            return  # a forked child left the block; the parent's thread renews
        with self._wake:
            self._held.discard(held)
        with held.lock:
            pass  # wait for a renewal in progress before the message is settled

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._held:
                    self._thread = None
                    return
                held = min(self._held, key=lambda renewed: renewed.due)
                left = held.due - time.monotonic()
                if left > 0:
                    self._next = held.due
                    self._wake.wait(min(left, MAX_SLEEP))
                    continue
                held.lock.acquire()
            try:
                self._renew(held)
            finally:
                held.lock.release()

    def _renew(self, held: _Held) -> None:
        pause = held.timeout / 3
        try:
            self._extend(held.message, held.timeout)
        except LeaseLost:
            with self._wake:
                self._held.discard(held)
        except EXPECTED as error:
            log.warning(
                "a lease of %r could not be renewed and will be retried: %s",
                held.message,
                redact(str(error)),
            )
            pause = held.timeout / 12
        held.due = time.monotonic() + pause
