"""Messages in flight: settled when the next one is asked for, renewed until then."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence

import redis

from ackq.dropin.stack import CallStack
from ackq.errors import AckqError, LeaseLost, redact
from ackq.queue.client import Queue
from ackq.queue.messages import Message

log = logging.getLogger("ackq.dropin")

#: Longest time, in seconds, between two checks of whether a thread has ended.
LONGEST_TICK = 1.0


class InFlight:
    """The messages of one queue that one thread has in flight."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.messages: Sequence[Message] = ()
        self.finished = False
        self._call_stack: CallStack | None = None
        self._renew_at = self._ends_at = 0.0

    def hold(self, messages: Sequence[Message], call_stack: CallStack) -> None:
        """Hold these messages in place of the previous ones."""
        self._set_times()
        self._call_stack, self.finished, self.messages = call_stack, False, messages

    def finish(self) -> Sequence[Message]:
        """Return the messages to settle, now that the thread asks for the next one.

        Asking means that the work on the last message is done, unless the function that popped it
        ended with an exception. Then the message is redelivered when its lease ends.
        """
        if self.messages and not self.finished and self._call_stack is not None:
            if self._call_stack.failed():
                log.warning("%s: what took %s failed; it comes back when its lease ends",
                            self.queue, _ids(self.messages))  # fmt: skip
                self.messages = ()
            self.finished = True
        return self.messages

    def settle(self) -> None:
        """Settle the messages that `finish` returns, without popping more."""
        if messages := self.finish():
            with contextlib.suppress(LeaseLost):
                self.queue.ack(*messages)
        self.clear()

    def clear(self) -> None:
        """Forget the settled messages, and log those whose lease was lost."""
        _tell_lost(self.queue, self.messages)
        self.messages, self._call_stack = (), None

    def close(self, clean: bool) -> None:
        """Settle messages proved to be done, and drop those of this thread and ended threads.

        Args:
            clean: for the calling thread's own messages: whether their work is done.
        """
        call_stack, messages = self._call_stack, self.messages
        if not messages or call_stack is None:
            return
        own = call_stack.thread is threading.current_thread()
        if self.finished or (clean and not call_stack.failed() if own else call_stack.done()):
            try:
                self.queue.ack(*messages)
            except LeaseLost:
                pass
            except (redis.RedisError, AckqError, OSError) as error:
                log.warning("%s: %s could not be settled and will come back: %s",
                            self.queue, _ids(messages), redact(str(error)))  # fmt: skip
        if own or not call_stack.thread.is_alive() or call_stack.done():
            self.clear()

    def close_at_exit(self) -> None:
        """Settle if every function involved has returned; see `CallStack.done`."""
        if self._call_stack is not None and (self.finished or self._call_stack.done()):
            self.close(clean=True)

    def tend(self) -> bool:
        """Renew the leases if it is time, and return whether messages are still held."""
        call_stack, messages, now = self._call_stack, self.messages, time.monotonic()
        if not messages or call_stack is None:
            return False
        if not call_stack.thread.is_alive():
            self.close(clean=False)
            return False
        if self.finished:
            return True
        if call_stack.failed():
            if now >= self._ends_at and self.messages is messages:
                self.messages = ()
        elif now >= self._renew_at:
            self._renew(messages)
        return True

    def _renew(self, messages: Sequence[Message]) -> None:
        try:
            self.queue.extend(*messages)
        except LeaseLost:
            if self.messages is messages and not self.finished:
                _tell_lost(self.queue, messages)
        except (redis.RedisError, AckqError, OSError) as error:
            log.warning("%s: a lease could not be renewed: %s", self.queue, redact(str(error)))
            return  # try again at the next tick
        self._set_times()

    def _set_times(self) -> None:
        now, timeout = time.monotonic(), self.queue.config.visibility_timeout
        self._renew_at, self._ends_at = now + timeout / 3, now + timeout


class LeaseRenewal:
    """A daemon thread that renews the leases of all messages in flight.

    A process that hangs as a whole, or is killed, stops renewing, so its messages are
    redelivered. The thread ends when nothing is in flight, and starts again when needed.
    """

    def __init__(self, visibility_timeout: float) -> None:
        self._tick = min(LONGEST_TICK, visibility_timeout / 6)
        self._hands: set[InFlight] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, hand: InFlight) -> None:
        """Renew the leases in ``hand`` for as long as it holds messages."""
        with self._lock:
            self._hands.add(hand)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ackq-renew", daemon=True)
                self._thread.start()

    def hands(self) -> list[InFlight]:
        """Return the `InFlight` objects whose leases are being renewed."""
        with self._lock:
            return list(self._hands)

    def _run(self) -> None:
        while True:
            time.sleep(self._tick)
            idle = [hand for hand in self.hands() if not hand.tend()]
            with self._lock:
                # Keep any that received messages in the meantime.
                self._hands -= {hand for hand in idle if not hand.messages}
                if not self._hands:
                    self._thread = None
                    return


def _tell_lost(queue: Queue, messages: Sequence[Message]) -> None:
    lost = [message for message in messages if message.lease_lost]
    if lost:
        log.warning("%s: the lease of %s ended before its work did: it is, or will be, delivered"
                    " again, unless others have settled or deleted it", queue,
                    _ids(lost))  # fmt: skip


def _ids(messages: Sequence[Message]) -> str:
    named = ", ".join(repr(message.id) for message in messages[:3])
    return named + (f" and {len(messages) - 3} more" if len(messages) > 3 else "")
