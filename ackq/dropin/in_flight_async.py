"""Messages in flight: settled when the next one is asked for, renewed until then."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from types import CodeType
from typing import TypeAlias

import redis

from ackq.config import PopFrom
from ackq.dropin import loops
from ackq.dropin.byte_code import Call, between_pops, calls_in
from ackq.dropin.errors import Refused
from ackq.dropin.owner_async import Caller, Owner
from ackq.errors import AckqError, LeaseLost, redact
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message
from ackq.queue.pop_from import forget_if_unused

log = logging.getLogger("ackq.dropin")


class InFlight:
    """The messages of one list that one consumer has in flight."""

    def __init__(self, queue: AsyncQueue, reports: loops.Reports, collect: loops.Collect) -> None:
        self.queue, self.collect = queue, collect
        self.messages: list[Message] = []
        self.finished = False
        #: Whether a `batch` block keeps all messages until its end.
        self.in_batch = False
        #: Whether a pop is an acknowledgement, after which nothing is worked on.
        self.is_processing_list = False
        self.signs = loops.Signs()
        self.owner: Owner | None = None
        self._reports = reports
        self._renew_at = 0.0
        self._is_new = True
        self._call: tuple[CodeType, int] | None = None
        self._earlier: Sequence[Call] = ()

    def hold(self, messages: list[Message], owner: Owner) -> None:
        """Hold these messages, beside those of the batch.

        Outside a batch, others are held only if several calls of one consumer run at a time, or
        with ``collect="hold"``.
        """
        if not self.messages:
            self._set_renewal()
            self.owner, self.finished, self.messages = owner, False, messages
        elif self.collect.hold:
            # In place: another thread may be taking one out.
            self.messages.extend(messages)
            self.owner = owner
        else:
            self.finished, self.messages = False, [*self.messages, *messages]

    def check_owner(self) -> None:
        """Check the call that popped, and warn if it popped for others."""
        owner = self.owner
        if self.in_batch or self.collect.hold or owner is None:
            return
        if (call := owner.call()) != self._call:
            self._call, self._earlier = call, calls_in(owner.users())
        if owner.for_another_thread():
            self._warn(loops.FOR_ANOTHER_THREAD, owner)

    async def asked(self, caller: Caller) -> Sequence[Message]:
        """Return the messages to settle, now that their consumer asks for the next one.

        With ``collect="hold"``, the last ones are not among them.

        Args:
            caller: of the drop-in's method.

        Raises:
            Refused: the loop collects messages, and ``collect="refuse"``.
        """
        if self.in_batch or not self.messages or self.finished or self.owner is None:
            return await self.finish()
        if self.collect.hold:
            if not self.owner.failed():
                return self.messages[: -self.collect.hold]
        elif sign := self.signs.asked():
            self._report(loops.COLLECTED, self.owner, sign=sign)
        elif self._earlier:
            if between := between_pops(self._earlier, caller.frames()):
                self._report(loops.MAY_COLLECT, self.owner, found=between)
            self._earlier = ()
        return await self.finish()

    async def finish(self) -> Sequence[Message]:
        """Return the messages to settle, now that their consumer is done with them.

        If a function that was running when they were popped ended with an exception, they return to
        the queue instead.
        """
        if self.in_batch:
            return ()
        if self.messages and not self.finished and self.owner is not None:
            if self.owner.failed():
                await self.return_to_queue(self.messages)
            self.finished = True
        return self.messages

    async def settle(self) -> None:
        """Settle all messages, without popping more."""
        await self._settle(await self.finish())
        self._trust()

    async def settle_asked(self, caller: Caller) -> None:
        """Settle what the request for the next message settles, without popping more."""
        await self._settle(await self.asked(caller))

    def take_out(self, wanted: list[bytes]) -> list[Message]:
        """Hold no longer a message for each of the ``wanted`` bodies, and return them.

        What is found is removed from ``wanted``.
        """
        if self.in_batch:
            return []
        taken = []
        # Only what a list does at once: this may not be the thread that popped the messages.
        for message in list(self.messages):
            if message.body in wanted:
                with contextlib.suppress(ValueError):
                    self.messages.remove(message)
                    wanted.remove(message.body)
                    taken.append(message)
        if taken:
            self._trust()
        return taken

    def _trust(self) -> None:
        """Forget the signs of a loop that collects: it settles by itself."""
        self.signs, self._earlier = loops.Signs(), ()

    async def _settle(self, messages: Sequence[Message]) -> None:
        if messages:
            with contextlib.suppress(LeaseLost):
                await self.queue.ack(*messages)
        self.clear(messages)

    async def return_to_queue(self, messages: Sequence[Message]) -> None:
        """Return the messages to the queue: they are redelivered after a pause.

        The pause is a second at first, and longer if a message was returned before.
        """
        if self.messages is messages:
            # The owner refers to the variables of its functions, and to its task.
            self.forget()
        if not messages:
            return
        log.warning(
            "%s: the function that took %s failed; it is redelivered", self.queue, _ids(messages)
        )
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
        if self.in_batch or not settled:
            return
        if self.messages is settled:
            self.forget()
        elif self.collect.hold:
            for message in settled:
                with contextlib.suppress(ValueError):
                    self.messages.remove(message)
        else:
            return
        _log_lost(self.queue, settled)

    def forget(self) -> None:
        """Hold the messages no longer, as when they were deleted on purpose."""
        self.messages, self.owner, self._earlier = [], None, ()

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
        if owner.ended() and not self.collect.hold:
            await self.close(clean=False)
            return False
        if self.finished:
            return True
        if not self.in_batch and owner.failed():
            await self.return_to_queue(messages)
            return False
        if time.monotonic() >= self._renew_at:
            if not self.in_batch and not self.collect.hold and owner.job_returned():
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
                "%s: %s could not be settled and will be redelivered: %s",
                self.queue,
                _ids(messages),
                redact(str(error)),
            )

    async def _renew(self, messages: Sequence[Message]) -> None:
        held = [message for message in list(messages) if not message.lease_lost]
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

    def _report(self, text: str, owner: Owner, **fields: str) -> None:
        """Report that the loop collects, or may collect, messages."""
        if self.collect.refuse:
            path, number = owner.line()
            raise Refused(f"{path}:{number}: {text.format(name=self.queue.name, **fields)}")
        self._reports.warn(text, self.queue.name, owner.line, **fields)

    def _warn(self, text: str, owner: Owner) -> None:
        self._reports.warn(text, self.queue.name, owner.line)


ENDS: tuple[PopFrom, ...] = ("right", "left")
#: What one consumer has in flight, by list and end.
AllInFlight: TypeAlias = dict[tuple[str, PopFrom], InFlight]


def make_room(all_in_flight: AllInFlight, name: str, reports: loops.Reports) -> None:
    """Remove idle entries of one consumer before list ``name`` is added, or warn of too many."""
    if len(all_in_flight) < loops.MANY_LISTS:
        return
    for place in [
        place
        for place, in_flight in all_in_flight.items()
        if not in_flight.messages and not in_flight.in_batch
    ]:
        del all_in_flight[place]
    latest = next(reversed(all_in_flight.values()), None)
    if len(all_in_flight) >= loops.MANY_LISTS and latest is not None and latest.owner is not None:
        reports.warn(loops.MANY, name, latest.owner.line, count=loops.MANY_LISTS)


def _log_lost(queue: AsyncQueue, messages: Sequence[Message]) -> None:
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
