"""`AsyncTopic`: a topic that can be replayed, on asyncio."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Self

import redis.asyncio

from ackq.config import Confirm, Seconds, in_seconds
from ackq.core.client_async import Client, client_of
from ackq.core.encode import Pushable
from ackq.core.io.outside import SYSTEM
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic import consume, place, publish, settle
from ackq.topic.keys import TopicKeys
from ackq.topic.messages import Batch
from ackq.topic.spec import Delivery, OnTrimmed, TopicConfig, TopicSpec


class AsyncTopic(Client):
    """A topic: messages in one order, read by any number of consumers at their own positions.

    Guarantee: messages get the indexes 1, 2, 3, ... without a gap, and none is ever overwritten.
    A consumer id sees all messages in that order; readers with the same id divide them.
    With ``delivery="at_least_once"``, a range of messages is leased to one reader, and the
    position moves on commit: uncommitted messages are delivered again. With ``"at_most_once"``,
    the position moves on read: no message is delivered twice, and a message that a reader fails
    to handle is not delivered again. Without retention, a topic keeps all messages.

    For the tasks of one event loop.
    The topic opens its own connections with the client's settings. Close it, or use it as
    an async context manager.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
        name: str,
        *,
        delivery: Delivery = "at_least_once",
        visibility_timeout: Seconds = 30.0,
        on_trimmed: OnTrimmed = "raise",
        max_age: Seconds | None = None,
        max_messages: int | None = None,
        publish_attempts: int = 100,
        max_body_bytes: int = 1024 * 1024,
    ) -> None:
        """Set up topic ``name``. Nothing is sent before the first operation.

        Args:
            client: any redis-py client: standalone, Sentinel's `master_for`, or cluster. Its
                address, credentials, TLS and timeouts are used, but not its connections.
            name: the topic. In a cluster it needs a hash tag: ``{prices}``.
            delivery: "at_least_once" or "at_most_once", see above. Defaults to "at_least_once".
            visibility_timeout: seconds that a lease lasts, up to 43200. Defaults to 30.
            on_trimmed: what consume does if the next messages expired or were trimmed: "raise"
                `PlaceLost`, or "report" them in `Batch.missing` and continue. Defaults to
                "raise".
            max_age: seconds after which messages published by this object expire, read or not.
                Defaults to None, never.
            max_messages: messages that a publish keeps. Older ones are deleted, read or not.
                Defaults to None, all.
            publish_attempts: attempts of a publish while other producers are first. Defaults to
                100.
            max_body_bytes: longest body that publish accepts. Defaults to 1 MiB.

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: a setting is out of range.
        """
        keys = TopicKeys.of(name)
        config = TopicConfig(
            delivery,
            in_seconds(visibility_timeout),
            on_trimmed,
            None if max_age is None else in_seconds(max_age),
            max_messages,
            publish_attempts,
            max_body_bytes,
        )
        super().__init__(client, name)
        self._spec = TopicSpec(name, keys, config, self._block_limit, outside=SYSTEM)
        self._unfinished = UnfinishedCommits(name)

    @classmethod
    def from_url(cls, url: str | None, name: str, **settings: Any) -> Self:
        """Return topic ``name`` on the server at ``url``, with the settings of `Topic`.

        Args:
            url: as in `redis.Redis.from_url`. None: use the embedded server; start it if needed.
            name: the topic.
            settings: the keyword arguments of `Topic`.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), name, **settings)

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._spec.name

    @property
    def config(self) -> TopicConfig:
        """The settings of this topic object."""
        return self._spec.config

    async def publish(
        self,
        message: Pushable,
        *,
        dedup: str | None = None,
        dedup_window: Seconds = 3600.0,
        confirm: int | Confirm | None = None,
    ) -> int:
        """Store one message under the next index, and return the index.

        Cost: one round trip, and one more each time that another producer is first.

        Args:
            message: bytes, stored unchanged; or a mapping or dataclass, stored as JSON.
            dedup: a key. A second publish with the same key within the window stores nothing and
                returns the index of the first. If the reply is lost, such a publish is sent again.
            dedup_window: seconds that the key is remembered. Defaults to 3600.
            confirm: number of replicas that must have the message, or a `Confirm`. Defaults to
                None.

        Raises:
            InvalidMessage: another type, or a value that JSON cannot hold.
            MessageTooLarge: the body is over ``max_body_bytes``.
            PublishContention: others published first ``publish_attempts`` times; not stored.
            IndexTaken: nextIndex was lost or set back; not stored.
            NotConfirmed: stored, but too few servers confirmed it in time.
            UnknownOutcome: the reply was lost, so the message may or may not be stored. With
                ``dedup``, publish it again.
            KeyTypeError: a key of the topic has another type; nothing was changed.
        """
        if confirm is not None:
            confirm = self._fit(confirm)
        return await self._perform(
            publish.publish, self._spec, message, dedup, dedup_window, confirm
        )

    async def publish_many(
        self, messages: Iterable[Pushable], *, confirm: int | Confirm | None = None
    ) -> list[int]:
        """Store many messages in this order, and return their indexes.

        All messages are checked before any is sent. Cost: one round trip per chunk of 1,000
        messages or 4 MiB. Each chunk is stored whole, under consecutive indexes, or not at all.

        Args:
            messages: as in `publish`.
            confirm: as in `publish`, for each chunk.

        Raises:
            InvalidMessage: as in `publish`; nothing was sent.
            MessageTooLarge: as in `publish`; nothing was sent.
            PublishContention: as in `publish`; ``stored`` counts the stored messages.
            IndexTaken: as in `publish`.
            NotConfirmed: as in `publish`.
            UnknownOutcome: as in `publish`; ``stored`` counts the messages known to be stored.
            KeyTypeError: as in `publish`.
        """
        if confirm is not None:
            confirm = self._fit(confirm)
        return await self._perform(publish.publish_many, self._spec, messages, confirm)

    async def subscribe(
        self, consumer: str, start: int | Literal["oldest", "end"] = "oldest"
    ) -> bool:
        """Subscribe a consumer id, unless it is subscribed already; return whether it was new.

        Args:
            consumer: the id, 1 to 200 bytes of printable text.
            start: the index to read first; "oldest": the oldest message still stored; "end":
                messages published from now on. Defaults to "oldest".

        Raises:
            ConfigurationError: the topic has no such index yet.
        """
        return await self._run(place.subscribe(self._spec, consumer, start))

    async def unsubscribe(self, consumer: str) -> bool:
        """Remove a consumer id and its position; return whether it was subscribed.

        Subscribing it again replays all messages still stored. The leases of its readers become
        invalid.
        """
        return await self._run(place.unsubscribe(self._spec, consumer))

    async def consume(
        self,
        consumer: str,
        n: int = 1,
        timeout: Seconds | None = None,
        visibility_timeout: Seconds | None = None,
        commit: Iterable[Batch] | Batch = (),
    ) -> Batch:
        """Commit finished batches, then read the next messages for a consumer id.

        Guarantee: the messages are consecutive, and no other reader of this id receives them while
        the lease runs (with at most once: ever). A range whose lease ended is delivered first, and
        may be split in two. A waiting call notices messages published by ackq at once; messages
        of other producers, and released ranges, within a second.

        Cost: one round trip if there are messages, and one more if other readers of the id were
        first; one per second while there are none. Once a second, one more round trip looks for
        unfinished commits of staged rows, and spends up to a second publishing them.

        Args:
            consumer: a subscribed id.
            n: how many at most. One call reads at most 1,000 messages or 1 MiB.
            timeout: seconds to wait for the first message. None: do not wait; ``math.inf``: wait
                forever.
            visibility_timeout: seconds that this lease lasts. Defaults to the topic's.
            commit: batches to commit in the same round trip. A refused commit raises nothing; it
                sets the batch's ``lease_lost``.

        Returns:
            0 to ``n`` messages, oldest first. There may be more, even if there are fewer than
            ``n``. A batch is false if there is nothing to commit.

        Raises:
            NotSubscribed: the id is not subscribed.
            PlaceLost: the next messages expired or were trimmed, and ``on_trimmed`` is "raise".
            UnknownOutcome: the reply was lost. The commits have been sent again. Messages that
                the lost call read are delivered again after their visibility timeout; with at
                most once, never.
            KeyTypeError: a key of the topic has another type; nothing was changed.
        """
        return await self._perform(
            consume.consume,
            self._spec,
            consumer,
            n,
            timeout,
            visibility_timeout,
            commit,
            self._unfinished,
        )

    async def commit(self, *batches: Batch | Iterable[Batch]) -> int:
        """Commit batches, and return how many were not committed before.

        The position moves past a batch once all messages before it are committed too. Commits can
        be repeated; if a reply is lost, ackq does so itself. Cost: one round trip per 1,000.

        Raises:
            LeaseLost: other readers have some of the batches, or the position was moved; the
                other batches are committed.
        """
        return await self._perform(settle.commit, self._spec, batches)

    async def release(self, *batches: Batch | Iterable[Batch]) -> int:
        """Return batches to the topic, to be read again at once, and return how many.

        Raises:
            LeaseLost: other readers have some of the batches; the others are returned.
        """
        return await self._perform(settle.release, self._spec, batches)

    async def extend(
        self, *batches: Batch | Iterable[Batch], timeout: Seconds | None = None
    ) -> int:
        """Make leases end ``timeout`` seconds from now, and return how many were extended.

        This sets each batch's ``lease_expires_at``. The receipt does not change, so a lost reply
        does no harm.

        Args:
            batches: batches that consume returned.
            timeout: seconds from now, up to 43200. Defaults to the topic's visibility timeout.

        Raises:
            LeaseLost: other readers have some of the batches; the others are extended.
        """
        return await self._run(settle.extend(self._spec, batches, timeout))

    async def seek(self, consumer: str, to: int | Literal["oldest", "end"]) -> None:
        """Move a consumer id to another position. The leases of its readers become invalid.

        Args:
            consumer: a subscribed id.
            to: the index to read next; "oldest": the oldest message still stored; "end":
                messages published from now on.

        Raises:
            NotSubscribed: the id is not subscribed.
            ConfigurationError: the topic has no such index yet.
        """
        await self._run(place.seek(self._spec, consumer, to))

    async def lag(self, consumer: str) -> int:
        """Count the indexes that a consumer id has not committed, including leased ones.

        Raises:
            NotSubscribed: the id is not subscribed.
        """
        return await self._run(place.lag(self._spec, consumer))

    async def position(self, consumer: str) -> int | None:
        """Return the last index that a consumer id committed, or None if it is not subscribed."""
        return await self._run(place.position(self._spec, consumer))

    async def newest(self) -> int:
        """Return the index of the newest message; 0 before the first one."""
        return await self._run(place.newest(self._spec))

    async def oldest(self) -> int | None:
        """Return the index of the oldest message still stored, or None if there is none.

        Cost: one round trip, and one more per 1,000 expired messages.
        """
        return await self._run(place.oldest(self._spec))

    async def trim(self, keep: int) -> int:
        """Delete the oldest messages, read or not, until ``keep`` remain; return how many.

        Cost: one round trip per 1,000.
        """
        return await self._run(publish.trim(self._spec, keep))
