"""`AsyncShardedQueue`: a list queue over several Redis nodes, on asyncio."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self

import redis.asyncio

from ackq.config import Confirm, PopFrom
from ackq.core import observing
from ackq.core.client_async import Closable, client_of
from ackq.core.inspected import DeadLetter
from ackq.core.io.together_async import Prepared, run_all
from ackq.core.waiting import check_timeout
from ackq.errors import AckqError, LeaseLost
from ackq.membership.client_async import AsyncConsumerGroup
from ackq.queue import inspection, settle, take
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message, QueueStats
from ackq.sharded import operations
from ackq.sharded.choice import Choice
from ackq.sharded.waiters_async import AsyncShardWaiters

#: Looks of a take that does not wait: other consumers may be faster after the first one.
LOOKS = 2


class AsyncShardedQueue(Closable):
    """The queues ``{name:0}``, ``{name:1}``, ... as one, for loads that outgrow a single node.

    Guarantee: each message lives on one shard, with all guarantees of `Queue`. While the set of
    consumers does not change, each shard has one owner, and the numbers of shards of any two
    consumers differ by one at most. An owner waits for the messages of its shards; a consumer
    that finds its own shards empty takes from those of others. The first `pop` joins; `aclose`
    leaves. A receipt fences each message, so a change of owners loses no message and delivers
    none twice.

    There is no order between shards. Two consumers may work on messages of one key at once.
    For the tasks of one event loop, which are then one consumer.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
        name: str,
        shards: int,
        *,
        visibility_timeout: float = 30.0,
        max_receives: int | None = None,
        requeue: Literal["front", "back"] = "front",
        max_body_bytes: int = 1024 * 1024,
        session_timeout: float = 10.0,
        pop_from: PopFrom = "right",
        time_field: str | None = None,
    ) -> None:
        """Set up the client. Nothing is sent before the first operation.

        Args:
            client: any redis-py client, as in `Queue`. In a cluster, the hash tags spread the
                shards over the nodes.
            name: text without braces; shard 0 is the list ``{name:0}``.
            shards: how many, 1 to 1024; the same for all producers and consumers.
            visibility_timeout: as in `Queue`.
            max_receives: as in `Queue`.
            requeue: as in `Queue`.
            max_body_bytes: as in `Queue`.
            session_timeout: seconds of silence after which other consumers take over a
                consumer's shards. Defaults to 10.
            pop_from: as in `Queue`, for all shards. Defaults to "right".
            time_field: as in `Queue`. Defaults to None.

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: a setting is out of range.
        """
        names = operations.shard_names(name, shards)
        self.name = name
        first = AsyncQueue(
            client,
            names[0],
            visibility_timeout=visibility_timeout,
            max_receives=max_receives,
            requeue=requeue,
            max_body_bytes=max_body_bytes,
            pop_from=pop_from,
            time_field=time_field,
        )
        self._queues = (first, *map(first.beside, names[1:]))
        self._by_name = dict(zip(names, self._queues, strict=True))
        self._members = AsyncConsumerGroup(
            client, f"{{{name}}}", shards, session_timeout=session_timeout
        )
        self._waiters = AsyncShardWaiters(self._queues)
        self._turns = itertools.count(random.randrange(shards))
        self._choice = Choice()

    @classmethod
    def from_url(cls, url: str | None, name: str, shards: int, **settings: Any) -> Self:
        """Return queue ``name`` on the server at ``url``, with the settings of the class.

        Args:
            url: as in `redis.Redis.from_url`. None: use the embedded server; start it if needed.
            name: text without braces.
            shards: how many.
            settings: the keyword arguments of the class.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), name, shards, **settings)

    @property
    def shards(self) -> tuple[AsyncQueue, ...]:
        """The queue of each shard, for operations on a single shard: peek, audit, drain."""
        return self._queues

    @property
    def assigned(self) -> tuple[int, ...]:
        """The shards in the last known assignment of this consumer; empty before it joins."""
        return self._members.partitions

    async def join(self) -> tuple[int, ...]:
        """Join the consumers without taking messages, and return this consumer's shards."""
        return (await self._members.join()).partitions

    async def push(
        self,
        message: Mapping[str, Any] | bytes,
        *,
        key: str | None = None,
        delay: float | None = None,
        at: float | datetime | None = None,
        dedup: str | None = None,
        dedup_window: float = 3600.0,
        confirm: int | Confirm | None = None,
    ) -> str:
        """Store one message on one shard and return its id, as `Queue.push` does.

        Args:
            message: as in `Queue.push`.
            key: messages with the same key go to the same shard, by murmur3. Defaults to None:
                shards take turns; with ``dedup``, that is the key.
            delay: as in `Queue.push`.
            at: as in `Queue.push`.
            dedup: as in `Queue.push`.
            dedup_window: as in `Queue.push`.
            confirm: as in `Queue.push`.
        """
        return await self._shard_for(key if key is not None else dedup).push(
            message, delay=delay, at=at, dedup=dedup, dedup_window=dedup_window, confirm=confirm
        )

    async def push_many(
        self,
        messages: Iterable[Mapping[str, Any] | bytes],
        *,
        key: str | Callable[[Any], str | None] | None = None,
        delay: float | None = None,
        at: float | datetime | None = None,
        confirm: int | Confirm | None = None,
    ) -> list[str]:
        """Store many messages and return their ids in order, as `Queue.push_many` does.

        All are checked before any is sent. Up to 1,000 messages (or 4 MiB) go to one shard
        together, the next ones to the next shard. Cost: one round trip per 1,000 messages or
        4 MiB; per 500 messages with a delay. With a function as ``key``, at least one per shard
        that gets a message.

        Args:
            messages: as in `push`.
            key: all messages go to the shard of this key. Or a function that returns the key of a
                message, or None for a message that may go to any shard. Defaults to None.
            delay: as in `push`, for all of them.
            at: as in `push`, for all of them.
            confirm: as in `push`.

        Raises:
            PartlyStored: a shard could not be reached, or refused; other shards stored theirs.
            UnknownOutcome: the reply of a shard was lost.
            NotConfirmed: as in `push`; later messages are not stored.

        These three errors list which messages are stored.
        """
        listed = list(messages)
        with observing.sending(self.name, self._queues[0].address, listed):
            parts, ids = operations.divide(
                listed, key, len(self._queues), self._turns, self._queues[0].config
            )
            for turn, (shard, _, bodies) in enumerate(parts):
                try:
                    await self._queues[shard].push_many(bodies, delay=delay, at=at, confirm=confirm)
                except (AckqError, redis.RedisError, OSError) as error:
                    ended = operations.account(error, parts, turn)
                    raise ended from ended.__cause__
        return ids

    async def pop(
        self,
        timeout: float | None = None,
        visibility_timeout: float | None = None,
        ack: Iterable[Message] | Message = (),
    ) -> Message | None:
        """Lease and return the next message from this consumer's shards; see `pop_many`."""
        messages = await self.pop_many(1, timeout, visibility_timeout, ack)
        return messages[0] if messages else None

    async def pop_many(
        self,
        n: int,
        timeout: float | None = None,
        visibility_timeout: float | None = None,
        ack: Iterable[Message] | Message = (),
    ) -> list[Message]:
        """Lease and return up to ``n`` messages from one shard.

        See `Queue.pop_many`. A consumer takes from its own shards first, some times in a row from
        each that has messages. When all are empty, it takes from other shards. Cost: one round
        trip, and one to count messages when the last shard is used up, however many shards there
        are.

        Args:
            n: how many at most.
            timeout: seconds to wait for the first message, on all own shards at once. None: do
                not wait; ``math.inf``: wait forever.
            visibility_timeout: seconds that these leases last. Defaults to the queue's.
            ack: messages to ack at the same time, of any shards. A refused ack raises nothing; it
                sets the message's ``lease_lost``.
        """
        seconds = check_timeout(timeout)
        take.check(0, n, visibility_timeout)
        acked = operations.by_queue(ack)
        until = time.monotonic() + seconds
        await self._members.join()
        looks = 0
        while True:
            shard = self._choice.shard(time.monotonic())
            if shard is None:
                shard, looks = await self._look(acked), looks + 1
            if shard is not None:
                messages = await self._take(shard, n, visibility_timeout, acked)
                self._choice.took(shard, len(messages), n)
                if messages:
                    return messages
                if looks < LOOKS or time.monotonic() < until:
                    continue
            left = until - time.monotonic()
            if not seconds or left <= 0:
                return []
            owned = self._members.partitions
            for woken in await self._waiters.wait(owned, min(left, operations.BLOCK_LIMIT)):
                self._choice.woken(woken)

    async def _take(
        self,
        shard: int,
        n: int,
        visibility_timeout: float | None,
        acked: dict[str, list[Message]],
    ) -> list[Message]:
        """Take from a shard; meanwhile ack all messages, of whatever shards, and forget them."""
        queue = self._queues[shard]
        own = acked.pop(queue.name, ())
        if not acked:
            return await queue.pop_many(n, None, visibility_timeout, own)
        taking = queue.beginning(take.pop_many, n, None, visibility_timeout, own)
        taken: list[Message] = (await self._run_all([taking, *self._acks(acked)]))[0]
        return taken

    async def _look(self, acked: dict[str, list[Message]]) -> int | None:
        """Count the messages of the own shards; if there are none, of others.

        Meanwhile ack all messages, and forget them.

        Returns:
            The fullest shard; None if no shard that was looked at has messages.
        """
        owned = self._members.partitions
        acks = self._acks(acked)
        # A wait that goes on has found nothing yet.
        counts = await self._count(
            [each for each in owned if not self._waiters.waits_on(each)], acks
        )
        self._waiters.seen(counts)
        shard = self._choice.counted(counts, time.monotonic())
        if shard is not None:
            return shard
        others = self._choice.others(owned, len(self._queues), time.monotonic())
        if not others:
            return None
        shard = self._choice.counted(await self._count(others), time.monotonic())
        if shard is not None:
            self._choice.helps()
        return shard

    async def _count(
        self, shards: Sequence[int], acks: Sequence[Prepared[Any]] = ()
    ) -> dict[int, QueueStats]:
        looks = [self._queues[each].beginning(inspection.stats) for each in shards]
        found = await self._run_all([*acks, *looks])
        return dict(zip(shards, found[len(acks) :], strict=True))

    def _acks(self, acked: dict[str, list[Message]]) -> list[Prepared[Any]]:
        """Return the acks of messages by shard, and forget them."""
        found = [
            self._by_name.get(name, self._queues[0]).beginning(settle.ack, messages)
            for name, messages in acked.items()
        ]
        acked.clear()
        return found

    async def _run_all(self, prepared: Sequence[Prepared[Any]]) -> list[Any]:
        """Run operations of several shards; raise the first error that is not a lost lease."""
        if not prepared:
            return []
        results = await run_all(prepared)
        for each in results:
            if isinstance(each, Exception) and not isinstance(each, LeaseLost):
                raise each
        return results

    async def ack(self, *messages: Message, confirm: int | Confirm | None = None) -> int:
        """Delete messages whose work is done, and return how many; see `Queue.ack`."""
        return await self._settle(messages, lambda queue, each: queue.ack(*each, confirm=confirm))

    async def nack(
        self,
        *messages: Message,
        delay: float | None = None,
        error: BaseException | None = None,
    ) -> int:
        """Return messages to the queue to be delivered again; return how many. See `Queue.nack`."""
        return await self._settle(
            messages, lambda queue, each: queue.nack(*each, delay=delay, error=error)
        )

    async def release(self, *messages: Message) -> int:
        """Return messages to the queue at once, not counting the delivery; see `Queue.release`."""
        return await self._settle(messages, lambda queue, each: queue.release(*each))

    async def reject(
        self, *messages: Message, reason: str = "", error: BaseException | None = None
    ) -> int:
        """Move messages to the dead letters at once; see `Queue.reject`."""
        return await self._settle(
            messages, lambda queue, each: queue.reject(*each, reason=reason, error=error)
        )

    async def extend(self, *messages: Message, timeout: float | None = None) -> int:
        """Make leases end ``timeout`` seconds from now; see `Queue.extend`."""
        return await self._settle(
            messages, lambda queue, each: queue.extend(*each, timeout=timeout)
        )

    async def stats(self) -> QueueStats:
        """Count the messages of all shards, not at one instant. Cost: a round trip per node."""
        counts = await self._run_all([each.beginning(inspection.stats) for each in self._queues])
        return operations.total(counts)

    async def oldest_ready(self) -> float | None:
        """Return for how many seconds the oldest ready message of all shards has been ready.

        None if that is unknown for one shard; see `Queue.oldest_ready`. Cost: one round trip per
        node.
        """
        ages = [each.beginning(inspection.oldest_ready) for each in self._queues]
        return operations.oldest(await self._run_all(ages))

    async def dead_letters(self, n: int = 100) -> list[DeadLetter]:
        """Return up to ``n`` dead letters, shard by shard, without removing them."""
        letters: list[DeadLetter] = []
        for queue in self._queues:
            letters += await queue.dead_letters(n - len(letters))
        return letters

    async def redrive(self, n: int | None = None) -> int:
        """Make dead letters ready again, shard by shard, and return how many.

        Args:
            n: how many. Defaults to all that are dead now.
        """
        redriven = 0
        for queue in self._queues:
            redriven += await queue.redrive(None if n is None else n - redriven)
        return redriven

    async def purge(self, *, dead: bool = False) -> int:
        """Delete all messages of all shards for good, and return how many.

        Args:
            dead: also delete the dead letters. Defaults to False.
        """
        return sum([await queue.purge(dead=dead) for queue in self._queues])

    async def pause(self) -> None:
        """Stop all deliveries until `resume`. Pushing and settling still work."""
        for queue in self._queues:
            await queue.pause()

    async def resume(self) -> None:
        """End a `pause`."""
        for queue in self._queues:
            await queue.resume()

    async def aclose(self) -> None:
        """Leave the consumers and close the connections. Leases continue until they end."""
        await self._members.aclose()
        await self._waiters.close()
        for queue in self._queues:
            await queue.aclose()

    def __repr__(self) -> str:
        return f"<ackq.{type(self).__name__} {self.name!r}, {len(self._queues)} shards>"

    def _shard_for(self, key: str | None) -> AsyncQueue:
        size = len(self._queues)
        number = next(self._turns) % size if key is None else operations.shard_of(key, size)
        return self._queues[number]

    async def _settle(
        self,
        messages: Iterable[Message],
        settling: Callable[[AsyncQueue, list[Message]], Awaitable[int]],
    ) -> int:
        settled = 0
        lost: list[LeaseLost] = []
        for name, each in operations.by_queue(messages).items():
            try:
                # A message of another queue is passed to shard 0, which raises the right error.
                settled += await settling(self._by_name.get(name, self._queues[0]), each)
            except LeaseLost as error:
                settled += error.settled
                lost.append(error)
        operations.raise_lost(lost, settled)
        return settled
