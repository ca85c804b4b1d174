# Written by tools/blocking.py: edit in_flight_async.py instead, then run make clients.
"""Messages in flight: settled when the next one is asked for, renewed until then."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Sequence

from ackq.dropin.declared import Hold
from ackq.dropin.owner import Caller, Owner
from ackq.errors import EXPECTED, LeaseLost, redact
from ackq.queue.client import Queue
from ackq.queue.messages import Message
from ackq.queue.record import forget_if_unused

log = logging.getLogger("ackq.dropin")


class InFlight:
    """The messages of one list that one consumer has in flight."""

    def __init__(self, queue: Queue, kept: Hold) -> None:
        self.queue, self.kept = queue, kept
        #: What the consumer works on, oldest first, with the time at which it was popped. Other
        #: threads may settle some of it, so each change is one operation.
        self.messages: OrderedDict[Message, float] = OrderedDict()
        #: What the consumer is done with, and no reply has confirmed to be settled.
        self.done: list[Message] = []
        #: Whether a `batch` block keeps all messages until its end.
        self.in_batch = False
        self.owner: Owner | None = None
        self._renew_at = 0.0
        self._is_new = True

    def hold(self, messages: Sequence[Message], owner: Owner) -> None:
        """Hold these messages, which ``owner`` has just popped."""
        is_first = not self.messages
        if is_first:
            self._set_renewal()
        self.messages.update(dict.fromkeys(messages, time.monotonic()))
        if is_first or self.kept:
            self.owner = owner

    def asked(self, caller: Caller) -> Sequence[Message]:
        """Return the messages to settle, now that their consumer asks for the next one.

        Not those that the program declared to keep. If a function that was running when they were
        popped ended with an exception, all return to the queue instead.

        Args:
            caller: of the drop-in's method.
        """
        if not self.in_batch and not self._failed():
            until = caller.at - self.kept.seconds if self.kept.seconds else math.inf
            self.done += self._older(until)
        return list(self.done)

    def settle(self) -> None:
        """Settle all messages, without popping more, unless a function that popped one failed."""
        if not self.in_batch and not self._failed():
            self.done += self.take_out(*list(self.messages))
        self.settle_done(list(self.done))

    def settle_done(self, done: Sequence[Message]) -> None:
        """Settle messages that `asked` returned, without popping more."""
        if done:
            with contextlib.suppress(LeaseLost):
                self.queue.ack(*done)
        self.clear(done)

    def settle_only(self, bodies: list[bytes] | None) -> int:
        """Settle a message for each of the ``bodies``, by default all, and return their number.

        What is found is removed from ``bodies``. Messages of a `batch` are not found. If the call
        fails, the next pop settles them.

        Raises:
            LeaseLost: the lease of a message has ended. The others are settled.
        """
        found: list[Message] = []
        for message in list(self.messages):
            if self.in_batch or bodies == []:
                break
            if (bodies is None or message.body in bodies) and self.take_out(message):
                found.append(message)
                if bodies is not None:
                    bodies.remove(message.body)
        if not found:
            return 0
        try:
            settled = self.queue.ack(*found)
            self._forget_end()
        except BaseException as error:
            if not isinstance(error, LeaseLost):
                self.done.extend(found)
            raise
        finally:
            self._drop_owner()
        return settled

    def take_out(self, *messages: Message) -> list[Message]:
        """Hold these messages no longer, and return those that no other thread has taken out."""
        return [each for each in messages if self.messages.pop(each, None) is not None]

    def return_to_queue(self) -> None:
        """Return all messages to the queue: they are redelivered after a pause.

        The pause is a second at first, and longer if a message was returned before.
        """
        messages = self.take_out(*list(self.messages))
        self._drop_owner()
        if not messages:
            return
        log.warning(
            "%s: the function that took %s failed; it is redelivered", self.queue, _ids(messages)
        )
        try:
            self.queue.nack(*messages)
        except LeaseLost:
            pass
        except EXPECTED as error:
            log.warning(
                "%s: %s could not be returned, and is redelivered when its lease ends: %s",
                self.queue,
                _ids(messages),
                redact(str(error)),
            )

    def clear(self, settled: Sequence[Message]) -> None:
        """Forget messages that are settled, and log those whose lease was lost."""
        # Another call of the same consumer may have settled some of them meanwhile.
        if settled:
            known, gone = self.done, set(settled)
            self.done = [each for each in known if each not in gone]
            self._drop_owner()
            _log_lost(self.queue, [each for each in known if each in gone])

    def forget(self) -> None:
        """Hold the messages no longer, as when they were deleted on purpose."""
        self.messages.clear()
        self.done = []
        self._drop_owner()

    def end_batch(self, clean: bool) -> None:
        """Settle what a `batch` block popped, or give it back if the block raised."""
        self.in_batch = False
        if not clean:
            self.return_to_queue()
            return
        self.done += self.take_out(*list(self.messages))
        if self.done:
            self.settle_done(list(self.done))
            self._forget_end()

    def close(self, clean: bool) -> None:
        """Settle messages proved to be done; return those of this and of ended consumers.

        Messages that the program declared to keep are only held no longer, so that they are
        redelivered when their leases end: others may still be working on them.

        Args:
            clean: for this consumer's own messages: whether their work is done.
        """
        owner = self.owner
        self._ack_done()
        if not self.messages or owner is None:
            return
        own = owner.is_current()
        if self.kept and not owner.failed():
            if own or owner.ended():
                self.forget()
        elif clean and not owner.failed() if own else owner.done():
            self.done += self.take_out(*list(self.messages))
            self._ack_done()
        elif own or owner.ended():
            self.return_to_queue()

    def close_at_exit(self) -> None:
        """Settle if every function involved has returned; see `CallStack.done`."""
        self._ack_done()
        if self.owner is not None and self.owner.done():
            self.close(clean=True)

    def tend(self) -> bool:
        """Renew the leases if it is time, and return whether messages are still held."""
        owner = self.owner
        if owner is not None and owner.ended():
            if not self.kept:
                self.close(clean=False)
                return False
            self._ack_done()
        if not self.in_batch and self._failed():
            return bool(self.done)
        if self.messages and time.monotonic() >= self._renew_at:
            self._renew()
        return bool(self.messages or self.done)

    def _older(self, until: float) -> list[Message]:
        """Take out what was popped until then, except for the last messages."""
        older: list[Message] = []
        # Another thread may settle the oldest message meanwhile: then it is looked at again later.
        with contextlib.suppress(RuntimeError, StopIteration, KeyError):
            while len(self.messages) > self.kept.last:
                oldest = next(iter(self.messages))
                if self.messages[oldest] > until:
                    break
                older += self.take_out(oldest)
        return older

    def _failed(self) -> bool:
        """Return whether a function that popped has failed; then return all to the queue."""
        if not self.messages or self.owner is None or not self.owner.failed():
            return False
        self.return_to_queue()
        return True

    def _ack_done(self) -> None:
        if not (messages := list(self.done)):
            return
        try:
            with contextlib.suppress(LeaseLost):
                self.queue.ack(*messages)
            self._forget_end()
        except EXPECTED as error:
            log.warning(
                "%s: %s could not be settled and will be redelivered: %s",
                self.queue,
                _ids(messages),
                redact(str(error)),
            )
        self.clear(messages)

    def _forget_end(self) -> None:
        """Delete the record of the left end after the first use, if it was the only one."""
        if self._is_new and self.queue.config.pop_from == "left":
            self.queue.execute(forget_if_unused)
        self._is_new = False

    def _renew(self) -> None:
        held = [message for message in list(self.messages) if not message.lease_lost]
        try:
            self.queue.extend(*held)
        except LeaseLost:
            # Some may have been settled or deleted meanwhile.
            _log_lost(self.queue, [each for each in held if each in self.messages])
        except EXPECTED as error:
            log.warning("%s: a lease could not be renewed: %s", self.queue, redact(str(error)))
            return  # try again at the next tick
        self._set_renewal()

    def _set_renewal(self) -> None:
        self._renew_at = time.monotonic() + self.queue.config.visibility_timeout / 3

    def _drop_owner(self) -> None:
        """Drop the consumer's functions, and so their variables, once nothing is held."""
        if not self.messages and not self.done:
            self.owner = None


def _log_lost(queue: Queue, messages: Sequence[Message]) -> None:
    lost = [message for message in messages if message.lease_lost]
    if lost:
        log.warning(
            "%s: the lease of %s ended before its work was done: it is, or will be, delivered"
            " again, unless others have settled or deleted it",
            queue,
            _ids(lost),
        )


def _ids(messages: Sequence[Message]) -> str:
    named = ", ".join(repr(message.id) for message in messages[:3])
    return named + (f" and {len(messages) - 3} more" if len(messages) > 3 else "")
