"""`AsyncShardedQueue`: a list queue over several Redis nodes, on asyncio."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self

import redis.asyncio

from ackq.config import Confirm
from ackq.core.client_async import client_of
from ackq.core.inspected import DeadLetter
from ackq.core.waiting import check_timeout
from ackq.errors import AckqError, LeaseLost
from ackq.membership.client_async import AsyncConsumerGroup
from ackq.queue.client_async import AsyncQueue
from ackq.queue.messages import Message, QueueStats
from ackq.sharded import operations
from ackq.sharded.waiters_async import AsyncShardWaiters


class AsyncShardedQueue:
    """The queues ``{name:0}``, ``{name:1}``, ... as one, for who outgrows one Redis node.

    Guarantee: each message lives on one shard, with all that `Queue` promises. While the
    consumers do not change, each shard has one owner, and no consumer owns two more than
    another; with more consumers than shards some wait for one. The first `pop` joins; `aclose`
    leaves. Receipts fence every message by itself, so a change of owners loses nothing and
    delivers nothing twice.

    There is no order between shards.
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
    ) -> None:
        """Prepare; nothing is sent before the first operation.

        Args:
            client: any redis-py client, as in `Queue`; in a cluster the shards spread over its
                nodes by their hash tags.
            name: text without braces; shard 0 is the list ``{name:0}``.
            shards: how many, 1 to 1024; the same for all producers and consumers.
            visibility_timeout: as in `Queue`.
            max_receives: as in `Queue`.
            requeue: as in `Queue`.
            max_body_bytes: as in `Queue`.
            session_timeout: seconds of silence after which others serve a consumer's shards.
                Defaults to 10.

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: a setting is out of range.
        """
        names = operations.shard_names(name, shards)
        self.name = name
        self._queues = tuple(
            AsyncQueue(
                client,
                each,
                visibility_timeout=visibility_timeout,
                max_receives=max_receives,
                requeue=requeue,
                max_body_bytes=max_body_bytes,
            )
            for each in names
        )
        self._by_name = dict(zip(names, self._queues, strict=True))
        self._members = AsyncConsumerGroup(
            client, f"{{{name}}}", shards, session_timeout=session_timeout
        )
        self._waiters = AsyncShardWaiters(self._queues)
        self._turns = itertools.count(random.randrange(shards))

    @classmethod
    def from_url(cls, url: str | None, name: str, shards: int, **settings: Any) -> Self:
        """Return queue ``name`` on the server at ``url``, with the settings of the class.

        Args:
            url: as in `redis.Redis.from_url`; None starts, or finds, the embedded server.
            name: text without braces.
            shards: how many.
            settings: the keyword arguments of the class.

        Raises:
            ConfigurationError: the URL cannot be read; the error does not show its password.
            ServerNotFound: no URL, and no redis-server is at hand.
        """
        return cls(client_of(url), name, shards, **settings)

    @property
    def shards(self) -> tuple[AsyncQueue, ...]:
        """The queue of each shard, for what concerns one alone: peek, audit, drain."""
        return self._queues

    @property
    def assigned(self) -> tuple[int, ...]:
        """The shards that this consumer serves, as far as it knows; none before it joins."""
        return self._members.partitions

    async def join(self) -> tuple[int, ...]:
        """Join the consumers without taking anything, and return the shards."""
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
            key: messages of one key go to one shard, by murmur3. Defaults to None: shards take
                turns, except with ``dedup``, which is the key then.
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
        key: str | None = None,
        delay: float | None = None,
        at: float | datetime | None = None,
        confirm: int | Confirm | None = None,
    ) -> list[str]:
        """Store many messages and return their ids in order, as `Queue.push_many` does.

        All are checked before any is sent. One round trip for each shard and 1,000 messages.

        Args:
            messages: as in `push`.
            key: all go to the shard of this key. Defaults to None: shards take turns.
            delay: as in `push`, for all of them.
            at: as in `push`, for all of them.
            confirm: as in `push`.

        Raises:
            PartlyStored: a shard could not be reached, or refused; others have stored their part.
            UnknownOutcome: the reply of a shard was lost.
            NotConfirmed: as in `push`; later messages are not stored.

        These three say of each message whether it is stored.
        """
        if key is not None:
            return await self._shard_for(key).push_many(
                messages, delay=delay, at=at, confirm=confirm
            )
        limit = self._queues[0].config.max_body_bytes
        dealt, ids = operations.spread(messages, len(self._queues), next(self._turns), limit)
        for shard, (_, bodies) in dealt.items():
            try:
                await self._queues[shard].push_many(bodies, delay=delay, at=at, confirm=confirm)
            except (AckqError, redis.RedisError, OSError) as error:
                ended = operations.account(error, dealt, shard)
                raise ended from ended.__cause__
        return ids

    async def pop(
        self,
        timeout: float | None = None,
        visibility_timeout: float | None = None,
        ack: Iterable[Message] | Message = (),
    ) -> Message | None:
        """Take the next message of this consumer's shards; see `pop_many`."""
        messages = await self.pop_many(1, timeout, visibility_timeout, ack)
        return messages[0] if messages else None

    async def pop_many(
        self,
        n: int,
        timeout: float | None = None,
        visibility_timeout: float | None = None,
        ack: Iterable[Message] | Message = (),
    ) -> list[Message]:
        """Take up to ``n`` messages of one of this consumer's shards, as `Queue.pop_many` does.

        Each call begins with another shard, so none waits for ever behind a busy one. One round
        trip for each shard that is found empty on the way.

        Args:
            n: how many at most.
            timeout: seconds to wait for the first one, on all its shards at once; None: do not
                wait; ``math.inf``: for ever.
            visibility_timeout: seconds that these leases last. Defaults to the queue's.
            ack: messages to ack, in the same round trip where it goes to their shard. It never
                raises for one that was refused: its ``lease_lost`` is set.
        """
        patience = check_timeout(timeout)
        acked = operations.by_queue(ack)
        until = time.monotonic() + patience
        await self._members.join()
        while True:
            owned = self._in_turn()
            for shard in owned:
                queue = self._queues[shard]
                messages = await queue.pop_many(
                    n, None, visibility_timeout, acked.pop(queue.name, ())
                )
                if messages:
                    await self._ack_rest(acked)
                    return messages
            await self._ack_rest(acked)
            left = until - time.monotonic()
            if not patience or left <= 0:
                return []
            await self._waiters.wait(owned, min(left, operations.STRETCH))

    async def ack(self, *messages: Message, confirm: int | Confirm | None = None) -> int:
        """Delete messages whose work is done, and return how many; see `Queue.ack`."""
        return await self._settle(messages, lambda queue, each: queue.ack(*each, confirm=confirm))

    async def nack(self, *messages: Message, delay: float | None = None) -> int:
        """Give messages back, to be delivered again, and return how many; see `Queue.nack`."""
        return await self._settle(messages, lambda queue, each: queue.nack(*each, delay=delay))

    async def release(self, *messages: Message) -> int:
        """Give messages back at once, the receive not counted; see `Queue.release`."""
        return await self._settle(messages, lambda queue, each: queue.release(*each))

    async def reject(self, *messages: Message, reason: str = "") -> int:
        """Move messages to the dead letters at once; see `Queue.reject`."""
        return await self._settle(messages, lambda queue, each: queue.reject(*each, reason=reason))

    async def extend(self, *messages: Message, timeout: float | None = None) -> int:
        """Make leases end ``timeout`` seconds from now; see `Queue.extend`."""
        return await self._settle(
            messages, lambda queue, each: queue.extend(*each, timeout=timeout)
        )

    async def stats(self) -> QueueStats:
        """Count the messages of all shards. One round trip a shard, so not of one instant."""
        return operations.total([await queue.stats() for queue in self._queues])

    async def dead_letters(self, n: int = 100) -> list[DeadLetter]:
        """Read up to ``n`` dead letters, shard by shard. They stay."""
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
        """Delete every message of every shard, and return how many. They are lost.

        Args:
            dead: the dead letters too. Defaults to False.
        """
        return sum([await queue.purge(dead=dead) for queue in self._queues])

    async def pause(self) -> None:
        """Let no consumer take anything until `resume`. Settling and pushing go on."""
        for queue in self._queues:
            await queue.pause()

    async def resume(self) -> None:
        """End a `pause`."""
        for queue in self._queues:
            await queue.resume()

    async def aclose(self) -> None:
        """Leave the consumers and close the connections. What is in hand keeps its lease."""
        await self._members.aclose()
        await self._waiters.close()
        for queue in self._queues:
            await queue.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<ackq.{type(self).__name__} {self.name!r}, {len(self._queues)} shards>"

    def _shard_for(self, key: str | None) -> AsyncQueue:
        size = len(self._queues)
        number = next(self._turns) % size if key is None else operations.shard_of(key, size)
        return self._queues[number]

    def _in_turn(self) -> tuple[int, ...]:
        owned = self._members.partitions
        turn = next(self._turns) % len(owned) if owned else 0
        return owned[turn:] + owned[:turn]

    async def _ack_rest(self, acked: dict[str, list[Message]]) -> None:
        while acked:
            _, messages = acked.popitem()
            try:
                await self.ack(*messages)
            except LeaseLost:
                continue  # they are marked

    async def _settle(
        self,
        messages: Iterable[Message],
        settle: Callable[[AsyncQueue, list[Message]], Awaitable[int]],
    ) -> int:
        settled = 0
        lost: list[LeaseLost] = []
        for name, each in operations.by_queue(messages).items():
            try:
                # What is of no shard here is refused by the first one, which says so.
                settled += await settle(self._by_name.get(name, self._queues[0]), each)
            except LeaseLost as error:
                settled += error.settled
                lost.append(error)
        operations.raise_lost(lost, settled)
        return settled
