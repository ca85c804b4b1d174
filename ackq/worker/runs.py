"""Runs: messages of one group that a take returned together, and that are handled one by one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from ackq.queue.messages import Message


def _key(message: Message) -> tuple[str, str | None]:
    return message.queue, message.group


class Runs:
    """The messages that wait for the message before them, which is buffered or being handled.

    Until all messages of a run are settled, the scripts deliver no others of its group. So no
    group has two runs here, unless the leases of one have ended.
    """

    __slots__ = ("_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str | None], deque[Message]] = {}

    def begin(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages to handle now: the first of each group. Keep the others."""
        heads: dict[tuple[str, str | None], Message] = {}
        now = []
        with self._lock:
            for message in messages:
                key = _key(message)
                if message.group is None or heads.setdefault(key, message) is message:
                    # The leases of an earlier run of this group have ended.
                    self._waiting.pop(key, None)
                    now.append(message)
                else:
                    self._waiting.setdefault(key, deque()).append(message)
        return now

    def next(self, message: Message) -> Message | None:
        """Return the message to handle after this one, if any. It waits no longer."""
        with self._lock:
            waiting = self._waiting.get(_key(message))
            if not waiting:
                return None
            following = waiting.popleft()
            if not waiting:
                del self._waiting[_key(message)]
            return following

    def end(self, message: Message) -> Iterable[Message]:
        """Return the messages of a run that come after this one. They wait no longer."""
        with self._lock:
            return self._waiting.pop(_key(message), ())

    def __len__(self) -> int:
        return len(self.copy()) if self._waiting else 0

    def copy(self) -> list[Message]:
        """Return the waiting messages."""
        with self._lock:
            return [message for waiting in self._waiting.values() for message in waiting]
