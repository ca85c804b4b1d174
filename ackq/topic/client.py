# Written by tools/blocking.py: edit client_async.py instead, then run make clients.
"""`Topic`: a topic that can be replayed, blocking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Self

import redis

from ackq.config import Confirm
from ackq.core.client import Client, client_of
from ackq.staging.unfinished import UnfinishedCommits
from ackq.topic import consume, place, publish, settle
from ackq.topic.keys import TopicKeys
from ackq.topic.messages import Batch
from ackq.topic.publish import Publishable
from ackq.topic.spec import Delivery, OnTrimmed, TopicConfig, TopicSpec


class Topic(Client):
    """A topic: messages in one order, which any number of consumers read, each at its own place.

    Guarantee: messages get the indexes 1, 2, 3, ... without a gap, and none is ever overwritten.
    A consumer id sees each of them in that order; readers that share an id share the messages.
    With ``delivery="at_least_once"`` a range of messages is leased to one reader, and the place
    moves when it is committed: what a reader leaves uncommitted comes back. With
    ``"at_most_once"`` the place moves when they are read: none is delivered twice, and what a
    reader does not handle is not delivered again. Without retention a topic keeps everything.

    Safe to share between threads, and after a fork.
    It opens connections of its own, with the client's settings; close it, or use it as
    a context manager.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        *,
        delivery: Delivery = "at_least_once",
        visibility_timeout: float = 30.0,
        on_trimmed: OnTrimmed = "raise",
        max_age: float | None = None,
        max_messages: int | None = None,
        publish_attempts: int = 100,
        max_body_bytes: int = 1024 * 1024,
    ) -> None:
        """Prepare topic ``name``; nothing is sent before the first operation.

        Args:
            client: any redis-py client: standalone, Sentinel's `master_for`, or cluster. Its
                address, credentials, TLS and timeouts are used, its connections are not.
            name: the topic. In a cluster it needs a hash tag: ``{prices}``.
            delivery: "at_least_once" or "at_most_once", see above. Defaults to "at_least_once".
            visibility_timeout: seconds that a range stays with its reader, up to 43200. Defaults
                to 30.
            on_trimmed: what consume does where the next messages expired or were trimmed:
                "raise" `PlaceLost`, or "report" them in `Batch.missing` and read on. Defaults to
                "raise".
            max_age: seconds after which messages that are published here expire, read or not.
                Defaults to None, never.
            max_messages: messages that a publish leaves; older ones are deleted, read or not.
                Defaults to None, all.
            publish_attempts: times that a publish tries to be the next. Defaults to 100.
            max_body_bytes: longest body that publish takes. Defaults to 1 MiB.

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: a setting is out of range.
        """
        keys = TopicKeys.of(name)
        config = TopicConfig(delivery, visibility_timeout, on_trimmed, max_age, max_messages,
                             publish_attempts, max_body_bytes)  # fmt: skip
        super().__init__(client, name)
        self._spec = TopicSpec(name, keys, config, self._block_limit)
        self._unfinished = UnfinishedCommits(name)

    @classmethod
    def from_url(cls, url: str | None, name: str, **settings: Any) -> Self:
        """Return topic ``name`` on the server at ``url``, with the settings of `Topic`.

        Args:
            url: as in `redis.Redis.from_url`; None starts, or finds, the embedded server.
            name: the topic.
            settings: the keyword arguments of `Topic`.

        Raises:
            ConfigurationError: the URL cannot be read; the error does not show its password.
            ServerNotFound: no URL, and no redis-server is at hand.
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

    def publish(
        self,
        message: Publishable,
        *,
        dedup: str | None = None,
        dedup_window: float = 3600.0,
        confirm: int | Confirm | None = None,
    ) -> int:
        """Store one message under the next index, and return the index.

        One round trip, and one more each time that another producer was first.

        Args:
            message: bytes, stored as they are; or a mapping or dataclass, stored as JSON.
            dedup: a key; a second publish with the same key within the window stores nothing and
                returns the first one's index. Such a publish is sent again if its reply is lost.
            dedup_window: seconds that the key is remembered. Defaults to 3600.
            confirm: number of replicas that must have it, or a `Confirm`. Defaults to None.

        Raises:
            InvalidMessage: another type, or a value JSON cannot hold.
            MessageTooLarge: over ``max_body_bytes``.
            PublishContention: others were first ``publish_attempts`` times; not stored.
            IndexTaken: nextIndex was lost or set back; not stored.
            NotConfirmed: stored, but too few servers confirmed it in time.
            UnknownOutcome: the reply was lost; stored or not. With ``dedup`` publish it again.
            KeyTypeError: a key of the topic holds something else; nothing was changed.
        """
        self._fit(confirm)
        return self._run(publish.publish(self._spec, message, dedup, dedup_window, confirm))

    def publish_many(
        self, messages: Iterable[Publishable], *, confirm: int | Confirm | None = None
    ) -> list[int]:
        """Store many messages in this order, and return their indexes.

        All are checked before any is sent. One round trip per 1,000 messages or 4 MiB; each
        such chunk is stored whole, under indexes that follow one another, or not at all.

        Args:
            messages: as in `publish`.
            confirm: as in `publish`, for each chunk.

        Raises:
            InvalidMessage: as in `publish`; nothing was sent.
            MessageTooLarge: as in `publish`; nothing was sent.
            PublishContention: as in `publish`; its ``stored`` counts those that are stored.
            IndexTaken: as in `publish`.
            NotConfirmed: as in `publish`.
            UnknownOutcome: as in `publish`; its ``stored`` counts those that surely are.
            KeyTypeError: as in `publish`.
        """
        self._fit(confirm)
        return self._run(publish.publish_many(self._spec, messages, confirm))

    def subscribe(self, consumer: str, start: int | Literal["oldest", "end"] = "oldest") -> bool:
        """Give a consumer id its place, unless it has one; return whether it was new.

        Args:
            consumer: the id, 1 to 200 bytes of printable text.
            start: the index that it reads first; "oldest": the oldest message that is still
                there; "end": what is published from now on. Defaults to "oldest".

        Raises:
            ConfigurationError: the topic has no such index yet.
        """
        return self._run(place.subscribe(self._spec, consumer, start))

    def unsubscribe(self, consumer: str) -> bool:
        """Forget a consumer id and its place; return whether it was known.

        To subscribe it again replays every message that is still there. What its readers hold is
        void.
        """
        return self._run(place.unsubscribe(self._spec, consumer))

    def consume(
        self,
        consumer: str,
        n: int = 1,
        timeout: float | None = None,
        visibility_timeout: float | None = None,
        commit: Iterable[Batch] | Batch = (),
    ) -> Batch:
        """Read the next messages for a consumer id, after committing what is done.

        Guarantee: the messages follow one another, and no other reader of this id is given any
        of them while the lease runs (at most once: ever). The range of a lease that ended comes
        first; it may be cut in two. One round trip if there is something to read, and one more
        where other readers of the id were first; while there is nothing, one a second. It wakes
        at once when ackq publishes, and within a second when others do or give ranges back. Once
        a second one round trip more, which goes on with what a writer committed and left: up to
        a second of publishing rows.

        Args:
            consumer: an id that is subscribed.
            n: how many at most; a call reads 1,000 or 1 MiB.
            timeout: seconds to wait for the first one; None: do not wait; ``math.inf``: for ever.
            visibility_timeout: seconds that this lease lasts. Defaults to the topic's.
            commit: batches to commit in the same round trip. It never raises for one that was
                refused: its ``lease_lost`` is set.

        Returns:
            0..n messages, oldest first; fewer than ``n`` does not mean that there are no more. A
            batch is false if there is nothing to commit.

        Raises:
            NotSubscribed: the id has no place.
            PlaceLost: the next messages expired or were trimmed, and ``on_trimmed`` is "raise".
            UnknownOutcome: the reply was lost. ``commit`` has been sent again by itself; messages
                that were read come back after their visibility timeout; at most once: never.
            KeyTypeError: a key of the topic holds something else; nothing was changed.
        """
        return self._run(
            consume.consume(
                self._spec, consumer, n, timeout, visibility_timeout, commit, self._unfinished
            )
        )

    def commit(self, *batches: Batch) -> int:
        """Mark batches as done, and return how many were not before.

        The place moves over them as far as everything before is committed too. May be repeated,
        and is if its reply is lost. One round trip per 1,000.

        Raises:
            LeaseLost: some are other readers' now, or the place was moved; the rest is committed.
        """
        return self._run(settle.commit(self._spec, batches))

    def release(self, *batches: Batch) -> int:
        """Give batches back, to be read again at once, and return how many.

        Raises:
            LeaseLost: some are other readers' now; the rest is given back.
        """
        return self._run(settle.release(self._spec, batches))

    def extend(self, *batches: Batch, timeout: float | None = None) -> int:
        """Make leases end ``timeout`` seconds from now, and return how many do.

        Sets each batch's ``lease_expires_at``; the receipt stays, so a lost reply does no harm.

        Args:
            batches: what consume returned.
            timeout: seconds from now, up to 43200. Defaults to the topic's visibility timeout.

        Raises:
            LeaseLost: some are other readers' now; the rest is extended.
        """
        return self._run(settle.extend(self._spec, batches, timeout))

    def seek(self, consumer: str, to: int | Literal["oldest", "end"]) -> None:
        """Move a consumer id to another place. What its readers hold is void.

        Args:
            consumer: an id that is subscribed.
            to: the index that is read next; "oldest": the oldest message that is still there;
                "end": what is published from now on.

        Raises:
            NotSubscribed: the id has no place.
            ConfigurationError: the topic has no such index yet.
        """
        self._run(place.seek(self._spec, consumer, to))

    def lag(self, consumer: str) -> int:
        """Count the indexes that a consumer id has not committed, leased ones included.

        Raises:
            NotSubscribed: the id has no place.
        """
        return self._run(place.lag(self._spec, consumer))

    def position(self, consumer: str) -> int | None:
        """Return the last index that a consumer id has committed; None if it is not subscribed."""
        return self._run(place.position(self._spec, consumer))

    def newest(self) -> int:
        """Return the index of the newest message; 0 before the first one."""
        return self._run(place.newest(self._spec))

    def oldest(self) -> int | None:
        """Return the index of the oldest message that is still there; None if none is.

        One round trip, and one more per 1,000 messages that expired.
        """
        return self._run(place.oldest(self._spec))

    def trim(self, keep: int) -> int:
        """Delete the oldest messages until ``keep`` stay, read or not, and return how many.

        One round trip per 1,000.
        """
        return self._run(publish.trim(self._spec, keep))
