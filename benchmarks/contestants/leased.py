"""ackq's list queue."""

from __future__ import annotations

from collections.abc import Iterable

from ackq import Message, Queue
from ackq.keys import SUFFIXES
from benchmarks.contestants.base import Contestant, Messages

#: Seconds; longer than any run.
LONG = 12 * 3600.0


class _Ackq(Contestant):
    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.queue = Queue(self.client, key, visibility_timeout=LONG)

    def side_keys(self) -> Iterable[str]:
        return (self.key + suffix for suffix in SUFFIXES)

    def hold(self, count: int) -> None:
        self.queue.push_many(self.messages.many(count))
        while count > 0:
            count -= len(self.queue.pop_many(count))

    def close(self) -> None:
        self.queue.close()
        super().close()


class Ackq(_Ackq):
    """push, and pop with the ack of the message before."""

    _taken: Message | tuple[()] = ()

    def cycle(self) -> int:
        self.queue.push(self.messages.one())
        message = self.queue.pop(ack=self._taken)
        self._taken = message or ()
        return 1 if message else 0


class AckqBatch(_Ackq):
    """push_many, and pop_many with the acks of the batch before."""

    _taken: list[Message] | tuple[()] = ()

    def cycle(self) -> int:
        self.queue.push_many(self.messages.many(self.batch))
        self._taken = self.queue.pop_many(self.batch, ack=self._taken)
        return len(self._taken)
