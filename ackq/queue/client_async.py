"""`AsyncQueue`: the list queue, on asyncio."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Literal, Self, overload

import redis.asyncio

from ackq.config import Confirm, QueueConfig
from ackq.core.client_async import Client, client_of
from ackq.core.inspected import DeadLetter, PeekedMessage, State
from ackq.errors import AckqError
from ackq.queue import handed_over, inspection, push, settle, take
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import AuditReport, HeldClaim, Message, QueueCounters, QueueStats
from ackq.queue.renewal_async import AsyncRenewer
from ackq.queue.spec import QueueSpec


class AsyncQueue(Client):
    """A reliable queue over the Redis list ``name``.

    Guarantee: at least once. A message that was accepted is in exactly one place (ready, in
    flight, delayed or dead) until it is acked; a consumer that dies gives its messages back when
    their leases end.

    For the tasks of one event loop.
    It opens connections of its own, with the client's settings; close it, or use it as
    an async context manager.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
        name: str,
        *,
        visibility_timeout: float = 30.0,
        max_receives: int | None = None,
        requeue: Literal["front", "back"] = "front",
        max_body_bytes: int = 1024 * 1024,
    ) -> None:
        """Prepare queue ``name``; nothing is sent before the first operation.

        Args:
            client: any redis-py client: standalone, Sentinel's `master_for`, or cluster. Its
                address, credentials, TLS and timeouts are used, its connections are not. Where
                it sets no timeout, connecting and each reply may take 5 seconds, so a
                connection that falls silent ends in an error.
            name: the list that producers push to. In a cluster it needs a hash tag: ``{jobs}``.
            visibility_timeout: seconds that a popped message stays with its consumer, up to
                43200. Defaults to 30.
            max_receives: deliveries after which a message goes to the dead letters. Defaults to
                None, no limit.
            requeue: where a message goes whose lease ended: "front", before everything that
                waits, or "back", behind it as in the article. Defaults to "front".
            max_body_bytes: longest body; push refuses a longer one, pop puts one that was
                pushed by others aside into the dead letters. Defaults to 1 MiB.

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: a setting is out of range.
        """
        keys = QueueKeys.of(name)
        config = QueueConfig(visibility_timeout, max_receives, requeue, max_body_bytes)
        super().__init__(client, name)
        self._spec = QueueSpec(name, keys, config, self._block_limit)
        self._renewer = AsyncRenewer(self._extend_one)

    @classmethod
    def from_url(cls, url: str | None, name: str, **settings: Any) -> Self:
        """Return queue ``name`` on the server at ``url``, with the settings of `Queue`.

        Args:
            url: as in `redis.Redis.from_url`; None starts, or finds, the embedded server.
            name: the list that producers push to.
            settings: the keyword arguments of `Queue`.

        Raises:
            ConfigurationError: the URL cannot be read; the error does not show its password.
            ServerNotFound: no URL, and no redis-server is at hand.
        """
        return cls(client_of(url), name, **settings)

    @property
    def name(self) -> str:
        """The list that producers push to."""
        return self._spec.name

    @property
    def config(self) -> QueueConfig:
        """The settings of this queue object."""
        return self._spec.config

    async def push(
        self,
        message: Mapping[str, Any] | bytes,
        *,
        delay: float | None = None,
        at: float | datetime | None = None,
        dedup: str | None = None,
        dedup_window: float = 3600.0,
        confirm: int | Confirm | None = None,
    ) -> str:
        """Store one message, now or for later, and return its id.

        Guarantee: once it returns, the message is delivered until it is acked. One round trip,
        a plain LPUSH unless it is scheduled or deduplicated.

        Args:
            message: a mapping (or dataclass), pushed as a JSON object with its ``id`` first and
                given a random one if it has none; or bytes, pushed as they are. To pass on a
                message, push its ``body``: `Message.json` turns integers over 64 bits to floats.
            delay: seconds until it becomes ready.
            at: when it becomes ready: seconds since the epoch, or a datetime with a time zone.
            dedup: a key; a second push with the same key within the window stores nothing and
                returns the first one's id. Such a push is sent again if its reply is lost.
            dedup_window: seconds that the key is remembered. Defaults to 3600.
            confirm: number of replicas that must have it, or a `Confirm`. Defaults to None.

        Returns:
            The id as text; empty for bytes without a usable id.

        Raises:
            InvalidMessage: not a mapping or bytes, a bad id, or a value JSON cannot hold.
            MessageTooLarge: over ``max_body_bytes``.
            NotConfirmed: stored, but too few servers confirmed it in time.
            UnknownOutcome: the reply was lost; stored or not. With ``dedup`` push it again.
        """
        self._fit(confirm)
        return await self._run(
            push.push(self._spec, message, delay, at, dedup, dedup_window, confirm)
        )

    async def push_many(
        self,
        messages: Iterable[Mapping[str, Any] | bytes],
        *,
        delay: float | None = None,
        at: float | datetime | None = None,
        confirm: int | Confirm | None = None,
    ) -> list[str]:
        """Store many messages and return their ids; the first is delivered first.

        All are checked before any is sent. One round trip per 1,000 messages or 4 MiB (for
        later: 500 messages); each such chunk is stored whole or not at all.

        Args:
            messages: as in `push`.
            delay: as in `push`, for all of them.
            at: as in `push`, for all of them.
            confirm: as in `push`, for each chunk.

        Raises:
            InvalidMessage: as in `push`; nothing was sent.
            MessageTooLarge: as in `push`; nothing was sent.
            NotConfirmed: as in `push`; later chunks are not stored.
            UnknownOutcome: as in `push`; its ``stored`` counts those that surely are.
            PartlyStored: a later chunk met an error, its ``__cause__``.

        The last three say of each message whether it is stored: ``stored_positions``,
        ``unknown_positions``, ``not_stored_positions``.
        """
        self._fit(confirm)
        return await self._run(push.push_many(self._spec, messages, delay, at, confirm))

    async def pop(
        self,
        timeout: float | None = None,
        visibility_timeout: float | None = None,
        ack: Iterable[Message] | Message = (),
    ) -> Message | None:
        """Take the next message under a lease, or None if there is none in time.

        Settles ``ack`` first, in the same round trip. See `pop_many`.
        """
        messages = await self.pop_many(1, timeout, visibility_timeout, ack)
        return messages[0] if messages else None

    async def pop_many(
        self,
        n: int,
        timeout: float | None = None,
        visibility_timeout: float | None = None,
        ack: Iterable[Message] | Message = (),
    ) -> list[Message]:
        """Take up to ``n`` messages under one lease each.

        Guarantee: each is yours alone until its lease ends, then it is delivered again, ahead
        of what waits. Expired leases come first, then due messages, then the ready list. One
        round trip if there is work; while there is none, one per second at most.

        Args:
            n: how many at most; a call takes 1,000 or 1 MiB, and never another message along
                with one on its last permitted receive.
            timeout: seconds to wait for the first one; None: do not wait; ``math.inf``: for ever.
            visibility_timeout: seconds that these leases last. Defaults to the queue's.
            ack: messages to ack in the same round trip. It never raises for one that was
                refused: its ``lease_lost`` is set.

        Returns:
            0..n messages, oldest first; fewer than ``n`` does not mean that no more are ready.

        Raises:
            UnknownOutcome: the reply was lost. ``ack`` has been sent again by itself; messages
                that were taken come back after their visibility timeout.
            KeyTypeError: a key of the queue has another type; nothing was changed.
        """
        return await self._run(take.pop_many(self._spec, n, timeout, visibility_timeout, ack))

    async def ack(self, *messages: Message, confirm: int | Confirm | None = None) -> int:
        """Delete messages whose work is done, and return how many there were.

        A message that this consumer has settled counts 0 and is no error, so an ack may be
        repeated, and is if its reply is lost. One round trip per 1,000.

        Args:
            messages: what pop returned.
            confirm: number of replicas that must have it, or a `Confirm`. Defaults to None.

        Raises:
            LeaseLost: some are no longer held by this consumer; the rest is acked.
            NotConfirmed: applied, but too few servers confirmed it in time.
        """
        self._fit(confirm)
        return await self._run(settle.ack(self._spec, messages, confirm))

    async def ack_id(self, *ids: str | int) -> int:
        """Delete messages in flight by their bare ids, as the article's ack does.

        NOT FENCED: a late call deletes a message that another consumer holds now. Use `ack`.
        """
        return await self._run(settle.ack_id(self._spec, ids))

    async def nack(self, *messages: Message, delay: float | None = None) -> int:
        """Give messages back, to be delivered again, and return how many there were.

        Args:
            messages: what pop returned.
            delay: seconds until they are ready again. Defaults to a backoff by receive count:
                1, 2, 4, ... at most 300 seconds; with ``requeue="back"`` to none, at the back.

        A message at ``max_receives`` goes to the dead letters.

        Raises:
            LeaseLost: some are no longer held by this consumer; the rest is given back.
        """
        return await self._run(settle.nack(self._spec, messages, delay))

    async def release(self, *messages: Message) -> int:
        """Give messages back at once as if they had not been taken: the receive does not count.

        Raises:
            LeaseLost: some are no longer held by this consumer; the rest is given back.
        """
        return await self._run(settle.nack(self._spec, messages, 0, charge=False))

    async def reject(self, *messages: Message, reason: str = "") -> int:
        """Move messages to the dead letters at once, with the reason.

        Raises:
            LeaseLost: some are no longer held by this consumer; the rest is moved.
        """
        return await self._run(settle.reject(self._spec, messages, reason))

    async def extend(self, *messages: Message, timeout: float | None = None) -> int:
        """Make leases end ``timeout`` seconds from now, and return how many do.

        Sets each message's ``lease_expires_at``. The receipt stays as it is, so a lost reply
        does no harm. A message that this consumer has settled counts 0 and is no error.

        Args:
            messages: what pop returned.
            timeout: seconds from now, up to 43200. Defaults to the queue's visibility timeout.

        Raises:
            LeaseLost: some are no longer held by this consumer; the rest is extended.
        """
        return await self._run(settle.extend(self._spec, messages, timeout))

    @overload
    def lease(
        self, *, visibility_timeout: float | None = None
    ) -> AbstractAsyncContextManager[Message]: ...

    @overload
    def lease(
        self, timeout: float | None, visibility_timeout: float | None = None
    ) -> AbstractAsyncContextManager[Message | None]: ...

    def lease(
        self, timeout: float | None = math.inf, visibility_timeout: float | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """Pop for the length of a ``with`` block: ack when it ends, nack if it raises.

        Waits for a message, unless a ``timeout`` is given: then the block gets None if there was
        none in time. Anything that ends the block by an exception gives the message back, Ctrl-C
        and a cancelled task too.

        The lease is renewed in the background while the block runs, each time after a third of
        the visibility timeout, so a block may take as long as it needs. If the lease is lost all
        the same, because the process was frozen or cut off for too long, ``lease_lost`` of the
        message becomes True.

        Cost: that of pop and ack; one round trip per renewal, the first after a third of the
        timeout. The blocks of a queue share one thread, or each has a task. A block that
        hangs keeps its message for as long as it hangs; on asyncio, a block that blocks the event
        loop keeps renewals from running.

        Args:
            timeout: seconds to wait for a message, as in `pop`. Defaults to waiting for ever.
            visibility_timeout: seconds of the lease, and of each renewal. Defaults to the
                queue's.

        Raises:
            LeaseLost: when the block ends, if the message is another's by now, or gone.
        """
        return self._lease(timeout, visibility_timeout)

    @asynccontextmanager
    async def _lease(
        self, timeout: float | None, visibility_timeout: float | None
    ) -> AsyncIterator[Message | None]:
        message = await self.pop(timeout, visibility_timeout)
        if message is None:
            yield None
            return
        seconds = visibility_timeout or self._spec.config.visibility_timeout
        try:
            async with self._renewer.renewing(message, seconds):
                yield message
        except BaseException:
            # What the block raised matters more than a nack that failed: the lease ends anyway.
            with suppress(AckqError, redis.RedisError):
                await self.nack(message)
            raise
        await self.ack(message)

    async def _extend_one(self, message: Message, timeout: float) -> None:
        await self.extend(message, timeout=timeout)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Pop for ever, waiting for each message; the body of the loop settles it."""
        while True:
            message = await self.pop(math.inf)
            if message is not None:
                yield message

    async def stats(self) -> QueueStats:
        """Count the messages by where they are. One round trip, O(log n)."""
        return await self._run(inspection.stats(self._spec))

    async def claims(self) -> list[HeldClaim]:
        """List the claims of all groups: batches that others, such as Spark, took and not acked.

        One round trip per 100 lists that are held.
        """
        return await self._run(handed_over.claims(self._spec))

    async def counters(self, window: float = 10.0) -> QueueCounters:
        """Read what consumers did since somebody began to watch, and go on watching.

        The first call begins: its counts are 0. While calls follow each other within the window,
        pop, ack and claims count; the last call's window ends it, and nothing is left behind.
        Unwatched queues pay nothing. Calls of several watchers share the counts. One round trip.

        Args:
            window: seconds that they count on without a further call, 0.001 to 3600. Defaults to
                10.
        """
        return await self._run(inspection.counters(self._spec, window))

    async def peek(
        self, n: int = 10, state: State = "ready", *, skip: int = 0
    ) -> list[PeekedMessage]:
        """Look at up to ``n`` messages in the order of their delivery, without taking them.

        Args:
            n: how many; 0 and up.
            state: "ready" (what pop would take), "in_flight" (soonest deadline first) or
                "delayed" (soonest due first).
            skip: how many to pass over first. Defaults to 0.
        """
        return await self._run(inspection.peek(self._spec, n, state, skip))

    async def purge(self, *, dead: bool = False) -> int:
        """Delete every message, in flight too, and return how many. They are lost.

        The markers of idempotent pushes stay until their windows end: what was pushed with a
        marker before a purge can be pushed again only then.

        Args:
            dead: the dead letters too. Defaults to False.
        """
        return await self._run(inspection.purge(self._spec, dead))

    async def pause(self) -> None:
        """Let no consumer take anything until `resume`. Settling and pushing go on."""
        await self._run(inspection.pause(self._spec))

    async def resume(self) -> None:
        """End a `pause`; waiting consumers notice within half a second."""
        await self._run(inspection.resume(self._spec))

    async def dead_letters(
        self, n: int = 100, *, after: str | None = None, entries: Iterable[str] = ()
    ) -> list[DeadLetter]:
        """Read up to ``n`` dead letters, oldest first. They stay.

        Args:
            n: how many; one round trip per 100.
            after: only those after this `DeadLetter.entry`, for a walk through many. Defaults to
                None, from the first.
            entries: these instead, by `DeadLetter.entry`, as far as they are there; a round trip
                each.

        Raises:
            ConfigurationError: ``after`` is no entry.
        """
        return await self._run(inspection.dead_letters(self._spec, n, tuple(entries), after))

    async def redrive(self, n: int | None = None, *, entries: Iterable[str] = ()) -> int:
        """Make dead letters ready again, their counts at zero, and return how many.

        Args:
            n: how many, oldest first. Defaults to all that are dead now.
            entries: only these, by `DeadLetter.entry`.
        """
        return await self._run(inspection.redrive(self._spec, n, tuple(entries)))

    async def drop_dead_letters(self, *entries: str) -> int:
        """Delete dead letters by `DeadLetter.entry`, and return how many. They are lost."""
        return await self._run(inspection.drop_dead_letters(self._spec, entries))

    async def drain(self) -> int:
        """Put everything that is leased or delayed back on the list, and return how many.

        A bare RPOP can then take every message. Stop the consumers first, since running leases
        are ended. Delayed messages become ready at once, and receive counts are forgotten.
        """
        return await self._run(inspection.drain(self._spec))

    async def audit(self, repair: bool = False) -> AuditReport:
        """Check every record of the queue for what does not belong, in bounded steps.

        Args:
            repair: mend what can be mended: an orphan body becomes ready, a record without a
                body goes to the dead letters, an expiry is taken away. Nothing is dropped.
        """
        return await self._run(inspection.audit(self._spec, repair))
