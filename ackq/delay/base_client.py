# Written by tools/blocking.py: edit base_client_async.py instead, then run make clients.
"""What `DelayQueue` and `PartitionedDelayQueue` have in common, blocking."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime

import redis

from ackq.config import Confirm, Seconds, in_seconds
from ackq.core import observation
from ackq.core.claim_groups import HeldClaim
from ackq.core.client import Client
from ackq.core.counters import Counters
from ackq.core.failure_notes import note_error
from ackq.core.inspection_results import DeadLetter, Found, PeekedMessage, State
from ackq.core.search_terms import WITHIN, OnProgress
from ackq.delay import admin, claims, peek, places, push, settle, take
from ackq.delay.messages import Body, DelayedMessage, DelayEntry, DelaySpec, DelayStats
from ackq.delay.peek import FIRST, PAGE, Cursor
from ackq.delay.progress import MAX_TAKE, BatchProgress
from ackq.errors import AckqError, LeaseLost
from ackq.membership.operations import Session
from ackq.staging.recovery import UnfinishedCommits

_LOG = logging.getLogger("ackq.delay")

#: Handles a message: returns when the work is done, raises if it failed.
Handler = Callable[[DelayedMessage], object]


class DelayClient(Client):
    """Pushes, takes and settles the messages of one delay queue."""

    _spec: DelaySpec

    def __init__(self, client: redis.Redis | redis.RedisCluster, name: str) -> None:
        super().__init__(client, name)
        self._unfinished = UnfinishedCommits(name)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._spec.name

    def push(
        self,
        key: str,
        body: Body,
        *,
        delay: Seconds | None = None,
        delay_ms: int | None = None,
        at: float | datetime | None = None,
        at_ms: int | None = None,
        partition: int | None = None,
        confirm: int | Confirm | None = None,
    ) -> None:
        """Store one message until it is ready. Cost: one round trip, O(log n).

        Guarantee: once this call returns, the message is delivered until it is deleted, and never
        early by the server's clock. Body and ready time are stored together or not at all. Give
        at most one of the four times. Without one, the message is ready at once.

        Args:
            key: the message's name, unique among the stored messages; 1 to 512 bytes.
            body: bytes, stored unchanged; text, stored as UTF-8; or a mapping, stored as JSON.
            delay: seconds or a timedelta until it is ready, up to a hundred years.
            delay_ms: milliseconds until it is ready.
            at: when it is ready: seconds since the epoch, or a datetime with a time zone.
            at_ms: when it is ready, in milliseconds since the epoch.
            partition: of a partitioned queue. Defaults to None: chosen by murmur3 of the key.
            confirm: number of replicas that must have the message, or a `Confirm`. Defaults to
                None.

        Raises:
            DuplicateMessage: the key is already stored; that message was not changed.
            InvalidMessage: the key or the body is invalid.
            MessageTooLarge: the body is over ``max_body_bytes``.
            NotConfirmed: stored, but too few servers confirmed it in time.
            UnknownOutcome: the reply was lost. Push again: `DuplicateMessage` means that it is
                stored.
        """
        entry = DelayEntry(key, body, delay, delay_ms, at, at_ms, partition)
        self.push_many([entry], confirm=confirm)

    def push_many(
        self, entries: Iterable[DelayEntry], *, confirm: int | Confirm | None = None
    ) -> int:
        """Store many messages, and return how many. All are checked before any is sent.

        A message whose key already exists is skipped; the others are stored. Cost: one round trip
        per 500 messages or 4 MiB, whatever their partitions.

        Args:
            entries: the messages, each with its own time, as in `push`.
            confirm: as in `push`, for each round trip.

        Raises:
            DuplicateMessage: some keys already exist; ``stored`` counts the other messages.
            InvalidMessage: as in `push`; nothing was sent.
            MessageTooLarge: as in `push`; nothing was sent.
            NotConfirmed: as in `push`.
            UnknownOutcome: as in `push`; ``stored`` counts the messages known to be stored.
        """
        if confirm is not None:
            confirm = self._fit(confirm)
        return self._perform(push.push_many, self._spec, entries, confirm)

    def cancel(self, *keys: str, partition: int | None = None, in_flight: bool = False) -> int:
        """Delete messages by key, and return how many. Cost: one round trip per 1,000.

        Args:
            keys: of the messages.
            partition: as in `push`.
            in_flight: also delete leased messages. Their consumers are not stopped, but if they
                fail, the messages are not delivered again. Defaults to False.
        """
        return self._run(push.cancel(self._spec, keys, partition, in_flight))

    def reschedule(
        self,
        key: str,
        *,
        delay: Seconds | None = None,
        delay_ms: int | None = None,
        at: float | datetime | None = None,
        at_ms: int | None = None,
        partition: int | None = None,
    ) -> bool:
        """Change the ready time of a stored message; the times are as in `push`.

        Return False, and change nothing, if there is no such message or it is leased.
        """
        return self._run(push.reschedule(self._spec, key, delay, delay_ms, at, at_ms, partition))

    def take(
        self,
        n: int = 1,
        timeout: Seconds | None = None,
        visibility_timeout: Seconds | None = None,
    ) -> list[DelayedMessage]:
        """Lease and return up to ``n`` ready messages. `delete` them when the work is done.

        Guarantee: each message is yours alone until its lease ends. Then it is ready again. Cost:
        one round trip if a message is ready; at most one per second while none is. Once a second,
        one more round trip looks for unfinished commits of staged rows, and spends up to a second
        moving them in.

        Args:
            n: how many at most. One call takes at most 1,000 messages or 1 MiB. A message on its
                last permitted delivery is returned alone.
            timeout: seconds to wait for the first message. None: do not wait; ``math.inf``: wait
                forever. Messages pushed by ackq are noticed at once, others within a second.
            visibility_timeout: seconds that these leases last. Defaults to the queue's.

        Returns:
            0 to ``n`` messages, ordered by ready time within a partition.

        Raises:
            UnknownOutcome: the reply was lost. Messages that the lost call leased are delivered
                again after their visibility timeout.
            KeyTypeError: a key of the queue has another type; nothing was changed.
        """
        session = self._join()
        return self._perform(
            take.take, self._spec, n, timeout, visibility_timeout, session, self._unfinished
        )

    def delete(self, *messages: DelayedMessage | Iterable[DelayedMessage]) -> int:
        """Delete messages that `take` returned and whose work is done, and return how many.

        Deletes can be repeated: a message that this consumer has already deleted counts 0 and is
        no error. If a reply is lost, ackq repeats the delete itself. Cost: one round trip per
        1,000.

        Raises:
            LeaseLost: this consumer no longer has the lease of some messages; the others are
                deleted.
        """
        return self._perform(settle.delete, self._spec, messages)

    def nack(
        self,
        *messages: DelayedMessage | Iterable[DelayedMessage],
        delay: Seconds | None = None,
        error: BaseException | None = None,
    ) -> int:
        """Return messages to the queue, to be ready again later, and return how many.

        A message at ``max_receives`` goes to the dead letters, and its ``dead`` becomes True. It is
        counted too.

        Args:
            messages: messages that `take` returned, or lists of them.
            delay: seconds until they are ready. Defaults to a backoff by receive count: 1, 2,
                4, ... at most 300 seconds.
            error: why they failed, stored as ``record_errors`` says. `peek` and `dead_letters`
                return it. Defaults to None: nothing is stored.

        Raises:
            LeaseLost: this consumer no longer has the lease of some messages; the others are
                returned.
        """
        return self._perform(settle.nack, self._spec, messages, delay, error=error)

    def release(self, *messages: DelayedMessage | Iterable[DelayedMessage]) -> int:
        """Return messages to the queue at once, without counting the delivery.

        Raises:
            LeaseLost: this consumer no longer has the lease of some messages; the others are
                returned.
        """
        return self._perform(settle.nack, self._spec, messages, 0, charge=False)

    def reject(
        self,
        *messages: DelayedMessage | Iterable[DelayedMessage],
        reason: str = "",
        error: BaseException | None = None,
    ) -> int:
        """Move messages to the dead letters at once, with the reason.

        Args:
            messages: messages that `take` returned, or lists of them.
            reason: stored with the dead letters, at most 1024 bytes. Defaults to no text.
            error: why they failed, stored as in `nack`. Defaults to None.

        Raises:
            LeaseLost: this consumer no longer has the lease of some messages; the others are
                moved.
        """
        return self._perform(settle.reject, self._spec, messages, reason, error=error)

    def extend(
        self, *messages: DelayedMessage | Iterable[DelayedMessage], timeout: Seconds | None = None
    ) -> int:
        """Make leases end ``timeout`` seconds from now, and return how many were extended.

        This sets each message's ``lease_expires_at``. The receipt does not change.

        Args:
            messages: messages that `take` returned, or lists of them.
            timeout: seconds from now, up to 43200. Defaults to the queue's visibility timeout.

        Raises:
            LeaseLost: this consumer no longer has the lease of some messages; the others are
                extended.
        """
        return self._run(settle.extend(self._spec, messages, timeout))

    def consume(
        self,
        handler: Handler,
        *,
        batch_size: int = 100,
        idle_timeout: Seconds = math.inf,
        stop: Callable[[], bool] | None = None,
    ) -> int:
        """Take messages and handle them one after another; return how many succeeded.

        A message is deleted only after the handler has returned. If the handler raises, the error
        is logged and stored, and the message is delivered again after a backoff, or goes to the
        dead letters at ``max_receives``. The leases of a batch are extended between calls of the
        handler. Each call must end within half of the visibility timeout, or extend the lease
        itself.

        Args:
            handler: called with each message.
            batch_size: messages of one take, 1 to 1000. Defaults to 100.
            idle_timeout: seconds without a message after which it returns. Defaults to
                ``math.inf``: never.
            stop: called between messages, and once a second. If it returns True, consume
                returns the remaining messages to the queue and ends.
        """
        handler = observation.handled(handler, {self.name: self.address})
        handled, longest_idle = 0, in_seconds(idle_timeout)
        seen = time.monotonic()
        while not (stop and stop()) and (idle := time.monotonic() - seen) <= longest_idle:
            began = time.monotonic()
            with observation.prefetching():
                messages = self.take(batch_size, min(MAX_TAKE, longest_idle - idle))
            if messages:
                batch = BatchProgress(messages, self._spec.config.visibility_timeout, began)
                handled += self._handle(batch, handler, stop)
                seen = time.monotonic()
        return handled

    def _handle(
        self, batch: BatchProgress, handler: Handler, stop: Callable[[], bool] | None
    ) -> int:
        handled = 0
        try:
            for message in batch:
                if stop and stop():
                    break
                self._extend_if_due(batch)
                if message.lease_lost:
                    continue
                try:
                    handler(message)
                except Exception as error:
                    _LOG.warning("%r: the handler failed", message, exc_info=True)
                    note_error([message], error, self._spec.config.record_errors)
                    batch.failed.append(message)
                else:
                    batch.done.append(message)
                    handled += 1
                if batch.must_settle(time.monotonic()):
                    self._settle(batch)
        except BaseException:
            # The handler's error matters more than a failed settle: leases end anyway.
            with suppress(AckqError, redis.RedisError):
                self._settle(batch)
            with suppress(AckqError, redis.RedisError):
                self.release(*batch.waiting)
            raise
        self._settle(batch)
        with suppress(LeaseLost):
            self.release(*batch.waiting)
        return handled

    def _extend_if_due(self, batch: BatchProgress) -> None:
        now = time.monotonic()
        if batch.must_extend(now):
            with suppress(LeaseLost):
                self.extend(*batch.waiting)
            batch.extended(now)

    def _settle(self, batch: BatchProgress) -> None:
        done, failed = batch.settle(time.monotonic())
        for call, messages in ((self.delete, done), (self.nack, failed)):
            try:
                if messages:
                    call(*messages)
            except LeaseLost as error:
                _LOG.warning("%s", error)

    def stats(self) -> DelayStats:
        """Count the messages by state. Cost: one round trip, O(partitions log n)."""
        return self._run(admin.stats(self._spec))

    def counters(self, window: Seconds = 10.0) -> Counters:
        """Return what happened to messages since counting began, and keep counting.

        The first call starts the counts at 0. Everything is counted as long as each call follows
        within the window of an earlier one. After that, counting stops and the counts are
        deleted. Queues that nobody watches pay nothing, and all watchers share the same counts.
        ``dead`` has the reasons "max receives", "body missing", "rejected" and "duplicate key" (a
        committed row whose key was stored already). Consumers of the previous release
        count nothing; while they run, ``pushed`` and ``taken`` are too low. So is ``pushed`` if
        other clients, such as those of the article, delete messages. Cost: one round trip
        for each 128 partitions.

        Args:
            window: seconds that counting continues after this call, 0.001 to 604800. If an
                earlier call allows for longer, that holds. Defaults to 10.
        """
        return self._run(admin.counters(self._spec, window))

    def peek(self, n: int = 10, state: State = "ready") -> list[PeekedMessage]:
        """Return up to ``n`` messages without taking them, soonest first within a partition.

        Cost: one round trip per 1,000 messages or 1 MiB that are read. For "delayed", this
        includes leased messages in between.

        Args:
            n: how many; 0 and up.
            state: "ready" (``at`` is when it became ready), "in_flight" (``at`` is when the
                lease ends) or "delayed" (``at`` is when it will be ready).
        """
        return self._run(peek.peek(self._spec, n, state))

    def find(
        self, key: str, *, within: int | None = WITHIN, partition: int | None = None
    ) -> Found | None:
        """Return where the message with this key is, or None if it was deleted.

        Nothing is changed. `Found.position` and `Found.queue` are those of its partition. Cost: up
        to ten round trips, O(log n) each, or a few more if its state changes meanwhile; if it is
        not stored, one per 100 dead letters or 1 MiB that are looked through.

        Args:
            key: of the message.
            within: how many dead letters to look through, the newest first. None: all. Defaults to
                20000.
            partition: as in `push`.

        Raises:
            InvalidMessage: no message can have this key.
            ConfigurationError: ``within`` or ``partition`` is out of range.
        """
        return self._run(places.find(self._spec, key, within, partition))

    def find_all(
        self,
        key: str,
        *,
        within: int | None = WITHIN,
        partition: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Found]:
        """Return the message with this key and its dead letters, the newest first; see `find`.

        Args:
            key: as in `find`.
            within: as in `find`.
            partition: as in `find`.
            on_progress: called with the number of dead letters that were looked at since the last
                call. Defaults to None.
        """
        return self._run(places.find_all(self._spec, key, within, partition, on_progress))

    def search(
        self,
        where: Mapping[str, str | int | float | bool | None],
        *,
        limit: int = 100,
        within: int | None = WITHIN,
        on_progress: OnProgress | None = None,
    ) -> list[Found]:
        """Return messages whose bodies are JSON objects with these fields, and where they are.

        Partition by partition, ready messages come first, then those in flight, delayed and dead.
        Nothing is changed. A message whose state changes meanwhile may be returned twice or not at
        all. All bodies that are looked through are sent to the client. Cost: one round trip per
        1,000 messages, 100 dead letters or 1 MiB that are looked through.

        Args:
            where: 1 to 4 fields with their values. A dot leads into an object: "customer.id".
            limit: how many at most. Defaults to 100.
            within: how many messages in each state of a partition to look through, the next ones
                first. None: all. Defaults to 20000.
            on_progress: called after each round trip with the number of messages that were looked
                at. Defaults to None.

        Raises:
            ConfigurationError: a field or value cannot be searched for, or a number is out of
                range.
        """
        return self._run(places.search(self._spec, where, limit, within, on_progress))

    def claims(self) -> list[HeldClaim]:
        """List the claims of all groups, such as those of Spark queries; see `DelayClaims`.

        Their messages count as in flight. In a partitioned queue, ``lease_ends_in`` is that of the
        partition whose leases end first. Cost: two round trips per partition, and one per claim.
        """
        return self._run(claims.held(self._spec))

    def release_claims(self, group: str) -> int:
        """Return the messages of a group's claims, fence its driver, and return how many.

        For operators: the query is dead and will not be restarted. The messages are ready since
        their former times, and these deliveries do not count. Cost: two round trips per
        partition, and one per 300 messages.
        """
        return self._run(claims.release_all(self._spec, group))

    def peek_page(
        self, n: int = PAGE, state: State = "ready", *, cursor: Cursor = FIRST
    ) -> tuple[list[PeekedMessage], Cursor | None]:
        """Return one page of messages without taking them, to page through any number of them.

        Guarantee: messages that stay in this state unchanged are returned exactly once. This is
        not a snapshot: messages that are pushed, taken or settled between two pages may be missing
        or repeated. Cost: one round trip that reads at most 1,000 messages or 1 MiB, O(read +
        log² stored).

        Args:
            n: how many at most, 1 to 1000. Defaults to 1000.
            state: as in `peek`, and the same on all pages.
            cursor: where to continue, as returned with the previous page. Defaults to the
                beginning.

        Returns:
            0 to ``n`` messages, and the cursor of the next page, or None after the last page. A
            page may be empty before the end.

        Raises:
            ConfigurationError: ``cursor`` is not a cursor of this queue.
        """
        return self._run(peek.page(self._spec, n, state, cursor))

    def purge(self, *, dead: bool = False) -> int:
        """Delete all messages for good, also those in flight, and return how many.

        Args:
            dead: also delete the dead letters. Defaults to False.
        """
        return self._run(admin.purge(self._spec, dead))

    def dead_letters(
        self, n: int = 100, *, after: str | None = None, partition: int | None = None
    ) -> list[DeadLetter]:
        """Return up to ``n`` dead letters, oldest first within a partition, without removal.

        Args:
            n: how many. Defaults to 100. One round trip reads at most 100, or fewer if they are
                long.
            after: only those after this `DeadLetter.entry`, to page through many. Defaults to
                None, from the first.
            partition: only those of this partition. With several partitions, ``after`` needs it.
                Defaults to None, all.

        Raises:
            ConfigurationError: ``after`` is not an entry, or the partition is missing or out of
                range.
        """
        return self._run(admin.dead_letters(self._spec, n, after, partition))

    def drop_dead_letters(self, *entries: str, partition: int | None = None) -> int:
        """Delete dead letters for good by `DeadLetter.entry`, and return how many.

        Cost: one round trip per 50.

        Args:
            entries: which.
            partition: in which partition; needed if there are several.

        Raises:
            ConfigurationError: that is not an entry, or the partition is missing or out of range.
        """
        return self._run(admin.drop_dead_letters(self._spec, entries, partition))

    def redrive(
        self,
        n: int | None = None,
        *,
        entries: Iterable[str] = (),
        partition: int | None = None,
    ) -> int:
        """Make dead letters ready again with receive counts of zero, and return how many.

        A dead letter whose key has been stored again stays dead.

        Args:
            n: how many, oldest first. Defaults to all that are dead now.
            entries: only these, by `DeadLetter.entry`.
            partition: only those of this partition. With several partitions, ``entries`` needs it.
                Defaults to None, all.

        Raises:
            ConfigurationError: that is not an entry, or the partition is missing or out of range.
        """
        return self._run(admin.redrive(self._spec, n, tuple(entries), partition))

    def _join(self) -> Session | None:
        return None
