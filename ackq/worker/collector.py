"""Collects the messages of a queue into batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ackq.config import in_seconds
from ackq.queue.messages import Message
from ackq.worker.batch import Batch
from ackq.worker.effects import Bell


@dataclass(slots=True, eq=False)
class Pile:
    """A batch that waits for a handler."""

    queue: str  #: the name of its queue; of a sharded queue, not that of a shard
    messages: list[Message]


class Collector:
    """Collects the messages of one queue. Any thread may call any method.

    A message is always in the open batch or in one that was passed on, so code that looks for
    messages looks in this order.
    """

    def __init__(
        self, queue: str, batch: Batch, bell: Bell, pass_on: Callable[[Pile], None]
    ) -> None:
        """Begin with an empty batch.

        Args:
            queue: its name.
            batch: when a batch is complete.
            bell: of the routine that waits until a batch is due.
            pass_on: called with each complete batch.
        """
        self.size = batch.size
        self.bell = bell
        self._queue = queue
        self._wait = in_seconds(batch.wait)
        self._pass_on = pass_on
        self._open: list[Message] = []
        self._due = 0.0
        self._lock = threading.Lock()

    def add(
        self, messages: Iterable[Message], is_last: Callable[[Message], bool], now: float
    ) -> None:
        """Add messages. Those at their last permitted delivery get a batch each.

        Such a message may kill its worker, and then it takes no others along.
        """
        with self._lock:
            for message in messages:
                if is_last(message):
                    self._pass_on(Pile(self._queue, [message]))
                    continue
                if not self._open:
                    self._due = now + self._wait
                self._open.append(message)
                if len(self._open) >= self.size:
                    self._close()
        self.bell.ring()

    def left(self, now: float) -> float | None:
        """Return for how many seconds the open batch still waits, or None if it is empty."""
        with self._lock:
            return max(0.0, self._due - now) if self._open else None

    def close(self, now: float) -> None:
        """Pass the open batch on if it is due."""
        with self._lock:
            if self._open and now >= self._due:
                self._close()

    def waiting(self) -> list[Message]:
        """Return the messages of the open batch."""
        with self._lock:
            return self._open.copy()

    def _close(self) -> None:
        messages, self._open = self._open, []
        self._pass_on(Pile(self._queue, messages))
