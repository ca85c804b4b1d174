"""Messages in flight: settled when the next one is asked for, renewed until then."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from typing import TypeAlias

import redis

from ackq.config import PopFrom
from ackq.dropin import loops
from ackq.dropin.owner_async import Owner
from ackq.errors import AckqError, LeaseLost, redact
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message
from ackq.queue.pop_from import forget_if_unused

log = logging.getLogger("ackq.dropin")


class InFlight:
    """The messages of one list that one consumer has in flight."""

    def __init__(self, queue: AsyncQueue, reports: loops.Reports) -> None:
        self.queue = queue
        self.messages: Sequence[Message] = ()
        self.finished = False
        #: Whether a `batch` block keeps all messages until its end.
        self.in_batch = False
        self.pace = loops.Pace()
        self.owner: Owner | None = None
        self._reports = reports
        self._renew_at = 0.0
        self._is_new = True

    def hold(self, messages: Sequence[Message], owner: Owner) -> None:
        """Hold these messages, beside those of the batch.

        Outside a batch, others are held only if several calls of one consumer run at a time.
        """
        if self.messages:
            self.finished, self.messages = False, [*self.messages, *messages]
            return
        self._set_renewal()
        self.owner, self.finished, self.messages = owner, False, messages

    def check_owner(self) -> None:
        """Warn if the consumer popped for somebody else."""
        if not self.in_batch and self.owner is not None and self.owner.for_another_thread():
            self._warn(loops.FOR_ANOTHER_THREAD, self.owner)

    async def finish(self) -> Sequence[Message]:
        """Return the messages to settle, now that their consumer asks for the next one.

        Asking means that the work on the last message is done, unless a function that was running
        when it was popped ended with an exception. Then the message returns to the queue.
        """
        if self.in_batch:
            return ()
        if self.messages and not self.finished and self.owner is not None:
            if self.pace.asks():
                self._warn(loops.COLLECTED, self.owner)
            if self.owner.failed():
                await self.return_to_queue(self.messages)
            self.finished = True
        return self.messages

    async def settle(self) -> None:
        """Settle the messages that `finish` returns, without popping more."""
        if messages := await self.finish():
            with contextlib.suppress(LeaseLost):
                await self.queue.ack(*messages)
        self.clear(messages)

    async def return_to_queue(self, messages: Sequence[Message]) -> None:
        """Return the messages to the queue: they are redelivered after a pause.

        The pause is a second at first, and longer if a message was returned before.
        """
        if self.messages is messages:
            # The owner refers to the variables of its functions, and to its task.
            self.messages, self.owner = (), None
        if not messages:
            return
        log.warning("%s: what took %s failed; it comes back", self.queue, _ids(messages))
        try:
            await self.queue.nack(*messages)
        except LeaseLost:
            pass
        except (redis.RedisError, AckqError, OSError) as error:
            log.warning(
                "%s: %s could not be returned, and is redelivered when its lease ends: %s",
                self.queue,
                _ids(messages),
                redact(str(error)),
            )

    def clear(self, settled: Sequence[Message]) -> None:
        """Forget the settled messages, and log those whose lease was lost."""
        # Another call of the same consumer may have popped meanwhile.
        if not self.in_batch and self.messages is settled:
            if settled:
                _log_lost(self.queue, settled)
            self.messages, self.owner = (), None

    def forget(self) -> None:
        """Forget the messages without settling them: they were deleted on purpose."""
        self.messages, self.owner = (), None

    async def end_batch(self, clean: bool) -> None:
        """Settle what a `batch` block popped, or give it back if the block raised."""
        self.in_batch = False
        popped = bool(self.messages)
        if clean:
            self.finished = True
            await self.settle()
            if popped and self._is_new and self.queue.config.pop_from == "left":
                # The list may be used only once: then its record must not stay for ever.
                await self.queue.execute(forget_if_unused)
            self._is_new = self._is_new and not popped
        else:
            await self.return_to_queue(self.messages)

    async def close(self, clean: bool) -> None:
        """Settle messages proved to be done; return those of this and of ended consumers.

        Args:
            clean: for this consumer's own messages: whether their work is done.
        """
        owner, messages = self.owner, self.messages
        if not messages or owner is None:
            return
        own = owner.is_current()
        if self.finished or (clean and not owner.failed() if own else owner.done()):
            await self._ack(messages)
            self.clear(messages)
        elif own or owner.ended():
            await self.return_to_queue(messages)

    async def close_at_exit(self) -> None:
        """Settle if every function involved has returned; see `CallStack.done`."""
        if self.owner is not None and (self.finished or self.owner.done()):
            await self.close(clean=True)

    async def tend(self) -> bool:
        """Renew the leases if it is time, and return whether messages are still held."""
        owner, messages = self.owner, self.messages
        if not messages or owner is None:
            return False
        if owner.ended():
            await self.close(clean=False)
            return False
        if self.finished:
            return True
        if not self.in_batch and owner.failed():
            await self.return_to_queue(messages)
            return False
        if time.monotonic() >= self._renew_at:
            if not self.in_batch and owner.job_returned():
                self._warn(loops.JOB_RETURNED, owner)
            await self._renew(messages)
        return True

    async def _ack(self, messages: Sequence[Message]) -> None:
        try:
            await self.queue.ack(*messages)
        except LeaseLost:
            pass
        except (redis.RedisError, AckqError, OSError) as error:
            log.warning(
                "%s: %s could not be settled and will come back: %s",
                self.queue,
                _ids(messages),
                redact(str(error)),
            )

    async def _renew(self, messages: Sequence[Message]) -> None:
        held = [message for message in messages if not message.lease_lost]
        try:
            await self.queue.extend(*held)
        except LeaseLost:
            if self.messages is messages and not self.finished:
                _log_lost(self.queue, held)
        except (redis.RedisError, AckqError, OSError) as error:
            log.warning("%s: a lease could not be renewed: %s", self.queue, redact(str(error)))
            return  # try again at the next tick
        self._set_renewal()

    def _set_renewal(self) -> None:
        self._renew_at = time.monotonic() + self.queue.config.visibility_timeout / 3

    def _warn(self, text: str, owner: Owner) -> None:
        self._reports.warn(text, self.queue.name, owner.line)


ENDS: tuple[PopFrom, ...] = ("right", "left")
#: What one consumer has in flight, by list and end.
AllInFlight: TypeAlias = dict[tuple[str, PopFrom], InFlight]


def make_room(all_in_flight: AllInFlight, name: str, reports: loops.Reports) -> None:
    """Remove idle entries of one consumer before list ``name`` is added, or warn of too many."""
    if len(all_in_flight) < loops.MANY_LISTS:
        return
    for each in [
        each
        for each, in_flight in all_in_flight.items()
        if not in_flight.messages and not in_flight.in_batch
    ]:
        del all_in_flight[each]
    latest = next(reversed(all_in_flight.values()), None)
    if len(all_in_flight) >= loops.MANY_LISTS and latest is not None and latest.owner is not None:
        reports.warn(loops.MANY, name, latest.owner.line, count=loops.MANY_LISTS)


def _log_lost(queue: AsyncQueue, messages: Sequence[Message]) -> None:
    lost = [message for message in messages if message.lease_lost]
    if lost:
        log.warning(
            "%s: the lease of %s ended before its work did: it is, or will be, delivered"
            " again, unless others have settled or deleted it",
            queue,
            _ids(lost),
        )


def _ids(messages: Sequence[Message]) -> str:
    named = ", ".join(repr(message.id) for message in messages[:3])
    return named + (f" and {len(messages) - 3} more" if len(messages) > 3 else "")
