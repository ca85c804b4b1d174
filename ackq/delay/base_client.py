# Written by tools/blocking.py: edit base_client_async.py instead, then run make clients.
"""What `DelayQueue` and `PartitionedDelayQueue` have in common, blocking."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

import redis

from ackq.config import Confirm
from ackq.core.client import Client
from ackq.core.inspected import DeadLetter, PeekedMessage, State
from ackq.delay import admin, push, settle, take, walk
from ackq.delay.batch import LONGEST_TAKE, Batch
from ackq.delay.messages import Body, DelayedMessage, DelayEntry, DelaySpec, DelayStats
from ackq.delay.walk import FIRST, Place
from ackq.errors import AckqError, LeaseLost
from ackq.membership.operations import Session
from ackq.staging.unfinished import UnfinishedCommits

_LOG = logging.getLogger("ackq.delay")

#: What handles a message: it returns when the work is done, and raises if it failed.
Handler = Callable[[DelayedMessage], object]


class DelayClient(Client):
    """Pushes, takes and settles the messages of one topic."""

    _spec: DelaySpec

    def __init__(self, client: redis.Redis | redis.RedisCluster, topic: str) -> None:
        super().__init__(client, topic)
        self._unfinished = UnfinishedCommits(topic)

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._spec.topic

    def push(
        self,
        key: str,
        body: Body,
        *,
        delay: float | timedelta | None = None,
        delay_ms: int | None = None,
        at: float | datetime | None = None,
        at_ms: int | None = None,
        partition: int | None = None,
        confirm: int | Confirm | None = None,
    ) -> None:
        """Store one message until it is ready. One round trip, O(log n).

        Guarantee: once it returns, the message is delivered, never early by the server's clock,
        until it is deleted. Body and ready time are stored together or not at all. Of the four
        times give one at most; none: it is ready at once.

        Args:
            key: the message's name, unique among those stored; 1 to 512 bytes.
            body: bytes as they are, text as UTF-8, or a mapping as JSON.
            delay: seconds or a timedelta until it is ready, up to a hundred years.
            delay_ms: milliseconds until it is ready.
            at: when it is ready: seconds since the epoch, or a datetime with a time zone.
            at_ms: when it is ready, in milliseconds since the epoch.
            partition: of a partitioned topic. Defaults to None: by murmur3 of the key.
            confirm: number of replicas that must have it, or a `Confirm`. Defaults to None.

        Raises:
            DuplicateMessage: the key is stored already; that message was left as it is.
            InvalidMessage: a bad key, or a body that cannot be.
            MessageTooLarge: over ``max_body_bytes``.
            NotConfirmed: stored, but too few servers confirmed it in time.
            UnknownOutcome: the reply was lost; push again, and take `DuplicateMessage` for yes.
        """
        entry = DelayEntry(key, body, delay, delay_ms, at, at_ms, partition)
        self.push_many([entry], confirm=confirm)

    def push_many(
        self, entries: Iterable[DelayEntry], *, confirm: int | Confirm | None = None
    ) -> int:
        """Store many messages, and return how many. All are checked before any is sent.

        One round trip per 500 messages or 4 MiB, whatever their partitions. A message whose
        key exists is left out, the others are stored.

        Args:
            entries: what `push` takes, each with its own time.
            confirm: as in `push`, for each round trip.

        Raises:
            DuplicateMessage: names the keys that exist; its ``stored`` counts the others.
            InvalidMessage: as in `push`; nothing was sent.
            MessageTooLarge: as in `push`; nothing was sent.
            NotConfirmed: as in `push`.
            UnknownOutcome: as in `push`; its ``stored`` counts those that surely are.
        """
        self._fit(confirm)
        return self._run(push.push_many(self._spec, entries, confirm))

    def cancel(self, *keys: str, partition: int | None = None, in_flight: bool = False) -> int:
        """Delete messages by key, and return how many. One round trip per 1,000.

        Args:
            keys: of the messages.
            partition: as in `push`.
            in_flight: also those that a consumer holds now: it is not stopped, but if it fails,
                the message does not come back. Defaults to False: they are left alone.
        """
        return self._run(push.cancel(self._spec, keys, partition, in_flight))

    def reschedule(
        self,
        key: str,
        *,
        delay: float | timedelta | None = None,
        delay_ms: int | None = None,
        at: float | datetime | None = None,
        at_ms: int | None = None,
        partition: int | None = None,
    ) -> bool:
        """Give a stored message another ready time, as in `push`.

        Returns False, and changes nothing, if there is no such message or a consumer holds it.
        """
        return self._run(push.reschedule(self._spec, key, delay, delay_ms, at, at_ms, partition))

    def take(
        self,
        n: int = 1,
        timeout: float | None = None,
        visibility_timeout: float | None = None,
    ) -> list[DelayedMessage]:
        """Take up to ``n`` messages that are ready, under one lease each. Half of `consume`.

        Guarantee: each is yours alone until its lease ends, then it is ready again. One round
        trip if something is ready; while nothing is, one per second at most. Once a second one
        more, which goes on with what a writer committed and left: up to a second of moving rows.

        Args:
            n: how many at most; a call takes 1,000 or 1 MiB, and never another message along
                with one on its last permitted receive.
            timeout: seconds to wait for the first one; None: do not wait; ``math.inf``: for ever.
                Messages of ackq's producers are noticed at once, those of others in a second.
            visibility_timeout: seconds that these leases last. Defaults to the queue's.

        Returns:
            0..n messages, by ready time within a partition.

        Raises:
            UnknownOutcome: the reply was lost; what was taken comes back after its timeout.
            KeyTypeError: a key of the topic has another type; nothing was changed.
        """
        session = self._join()
        return self._run(
            take.take(self._spec, n, timeout, visibility_timeout, session, self._unfinished)
        )

    def delete(self, *messages: DelayedMessage) -> int:
        """Delete messages whose work is done, and return how many. The other half of `consume`.

        A message that this consumer has settled counts 0 and is no error, so a delete may be
        repeated, and is if its reply is lost. One round trip per 1,000.

        Raises:
            LeaseLost: some are no longer held by this consumer; the rest is deleted.
        """
        return self._run(settle.delete(self._spec, messages))

    def nack(self, *messages: DelayedMessage, delay: float | None = None) -> int:
        """Give messages back, to be ready again later, and return how many.

        Args:
            messages: what `take` returned.
            delay: seconds until they are ready. Defaults to a backoff by receive count: 1, 2,
                4, ... at most 300 seconds.

        A message at ``max_receives`` goes to the dead letters.

        Raises:
            LeaseLost: some are no longer held by this consumer; the rest is given back.
        """
        return self._run(settle.nack(self._spec, messages, delay))

    def release(self, *messages: DelayedMessage) -> int:
        """Give messages back at once as if they had not been taken: the receive does not count.

        Raises:
            LeaseLost: some are no longer held by this consumer; the rest is given back.
        """
        return self._run(settle.nack(self._spec, messages, 0, charge=False))

    def reject(self, *messages: DelayedMessage, reason: str = "") -> int:
        """Move messages to the dead letters at once, with the reason.

        Raises:
            LeaseLost: some are no longer held by this consumer; the rest is moved.
        """
        return self._run(settle.reject(self._spec, messages, reason))

    def extend(self, *messages: DelayedMessage, timeout: float | None = None) -> int:
        """Make leases end ``timeout`` seconds from now, and return how many do.

        Sets each message's ``lease_expires_at``; the receipt stays as it is.

        Args:
            messages: what `take` returned.
            timeout: seconds from now, up to 43200. Defaults to the queue's visibility timeout.

        Raises:
            LeaseLost: some are no longer held by this consumer; the rest is extended.
        """
        return self._run(settle.extend(self._spec, messages, timeout))

    def consume(
        self,
        handler: Handler,
        *,
        batch_size: int = 100,
        idle_timeout: float = math.inf,
        stop: Callable[[], bool] | None = None,
    ) -> int:
        """Take messages and handle them one after the other; return how many succeeded.

        A message is deleted only after the handler returned for it. If the handler raises, the
        error is logged and the message comes back after a backoff, or goes to the dead letters
        at ``max_receives``. The leases of a batch are extended while it is worked through; a
        single call of the handler must end within half of the visibility timeout, or extend.

        Args:
            handler: called with each message.
            batch_size: messages of one take, 1 to 1000. Defaults to 100.
            idle_timeout: seconds without a message after which it returns. Defaults to
                ``math.inf``: never.
            stop: asked between messages, and once a second; it returns when this says True,
                and gives back what it holds.
        """
        handled = 0
        seen = time.monotonic()
        while not (stop and stop()) and (idle := time.monotonic() - seen) <= idle_timeout:
            began = time.monotonic()
            messages = self.take(batch_size, min(LONGEST_TAKE, idle_timeout - idle))
            if messages:
                batch = Batch(messages, self._spec.config.visibility_timeout, began)
                handled += self._handle(batch, handler, stop)
                seen = time.monotonic()
        return handled

    def _handle(self, batch: Batch, handler: Handler, stop: Callable[[], bool] | None) -> int:
        handled = 0
        try:
            for message in batch:
                if stop and stop():
                    break
                self._keep(batch)
                if message.lease_lost:
                    continue
                try:
                    handler(message)
                except Exception:
                    _LOG.warning("%r: the handler failed", message, exc_info=True)
                    batch.failed.append(message)
                else:
                    batch.done.append(message)
                    handled += 1
                if batch.unsettled(time.monotonic()):
                    self._settle(batch)
        except BaseException:
            # What ended the handler matters more than what cannot be settled: leases end anyway.
            with suppress(AckqError, redis.RedisError):
                self._settle(batch)
            with suppress(AckqError, redis.RedisError):
                self.release(*batch.waiting)
            raise
        self._settle(batch)
        with suppress(LeaseLost):
            self.release(*batch.waiting)
        return handled

    def _keep(self, batch: Batch) -> None:
        now = time.monotonic()
        if batch.tired(now):
            with suppress(LeaseLost):
                self.extend(*batch.waiting)
            batch.extended(now)

    def _settle(self, batch: Batch) -> None:
        done, failed = batch.settle(time.monotonic())
        for call, messages in ((self.delete, done), (self.nack, failed)):
            try:
                if messages:
                    call(*messages)
            except LeaseLost as error:
                _LOG.warning("%s", error)

    def stats(self) -> DelayStats:
        """Count the messages by where they are. One round trip, O(partitions log n)."""
        return self._run(admin.stats(self._spec))

    def peek(self, n: int = 10, state: State = "ready") -> list[PeekedMessage]:
        """Look at up to ``n`` messages, soonest first within a partition, without taking them.

        One round trip per 1,000 messages or 1 MiB that are looked at; for "delayed" that is also
        what is leased in between.

        Args:
            n: how many; 0 and up.
            state: "ready" (``at`` is since when), "in_flight" (``at`` is when the lease ends) or
                "delayed" (``at`` is when it will be ready).
        """
        return self._run(walk.peek(self._spec, n, state))

    def peek_page(
        self, n: int = walk.PAGE, state: State = "ready", *, place: Place = FIRST
    ) -> tuple[list[PeekedMessage], Place | None]:
        """Look at one page of them: a step of a walk through all, however many there are.

        Guarantee: what stays in that state untouched is there exactly once. It is no snapshot:
        what is pushed, taken or settled between two pages may be missing, or be there twice. One
        round trip, which looks at 1,000 messages or 1 MiB at most; O(of these + log² stored).

        Args:
            n: how many at most, 1 to 1000. Defaults to 1000.
            state: as in `peek`, and the same on all pages.
            place: where to go on: what the page before returned. Defaults to the beginning.

        Returns:
            0..n messages, even none before the end, and the place of the next page; None: that
            was all.

        Raises:
            ConfigurationError: ``place`` is none of this queue.
        """
        return self._run(walk.page(self._spec, n, state, place))

    def purge(self, *, dead: bool = False) -> int:
        """Delete every message, in flight too, and return how many. They are lost.

        Args:
            dead: the dead letters too. Defaults to False.
        """
        return self._run(admin.purge(self._spec, dead))

    def dead_letters(self, n: int = 100) -> list[DeadLetter]:
        """Read up to ``n`` dead letters, oldest first within a partition. They stay."""
        return self._run(admin.dead_letters(self._spec, n))

    def redrive(self, n: int | None = None) -> int:
        """Make dead letters ready again, their counts at zero, and return how many.

        One whose key is stored again meanwhile stays dead.

        Args:
            n: how many, oldest first. Defaults to all that are dead now.
        """
        return self._run(admin.redrive(self._spec, n))

    def _join(self) -> Session | None:
        return None
