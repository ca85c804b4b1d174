# Written by tools/blocking.py: edit client_async.py instead, then run make clients.
"""`DelayQueue` and `PartitionedDelayQueue`, blocking."""

from __future__ import annotations

from typing import Any, Self

import redis

from ackq.config import QueueConfig, RecordErrors, Seconds, in_seconds
from ackq.core.client import client_of
from ackq.core.io.outside import SYSTEM
from ackq.delay.base_client import DelayClient
from ackq.delay.messages import DelaySpec
from ackq.membership.client import ConsumerGroup
from ackq.membership.operations import GroupSpec, Session


class DelayQueue(DelayClient):
    """A queue of messages that each become ready at their own time.

    Guarantee: at least once, never early by the server's clock, and never two valid leases on
    one message. The keys of a queue named ``reminders`` are ``reminders:z`` and ``reminders:h``, as
    in the article "Go+Redis implements delay queue operation" (SoFunction, 2025). The article's
    producers and consumers may share them; docs/delay.md describes the guarantees then.

    Any number of producers and consumers may use the queue.
    Safe to share between threads, and after a fork.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        *,
        visibility_timeout: Seconds = 30.0,
        max_receives: int | None = None,
        max_body_bytes: int = 1024 * 1024,
        record_errors: RecordErrors = "text",
    ) -> None:
        """Set up the client. Nothing is sent before the first operation.

        Args:
            client: any redis-py client, as in `ackq.Queue`.
            name: name of the queue. In a cluster it needs a hash tag: ``{reminders}``.
            visibility_timeout: seconds that a lease lasts, up to 43200. Defaults to 30.
            max_receives: deliveries after which a message goes to the dead letters. Defaults to
                None, no limit.
            max_body_bytes: longest body that push accepts. Defaults to 1 MiB.
            record_errors: what to store about the error passed to `nack` or `reject`, as in
                `ackq.Queue`. Defaults to "text".

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: a setting is out of range.
        """
        config = QueueConfig(
            in_seconds(visibility_timeout),
            max_receives,
            "front",
            max_body_bytes,
            record_errors=record_errors,
        )
        super().__init__(client, name)
        self._spec = DelaySpec.plain(name, config, self._block_limit, SYSTEM)

    @classmethod
    def from_url(cls, url: str | None, name: str, **settings: Any) -> Self:
        """Return queue ``name`` on the server at ``url``, with the settings of the class.

        Args:
            url: as in `redis.Redis.from_url`. None: use the embedded server; start it if needed.
            name: name of the queue.
            settings: the keyword arguments of the class.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), name, **settings)


class PartitionedDelayQueue(DelayClient):
    """A delay queue in numbered partitions, which its consumers divide among themselves.

    Guarantee: as `DelayQueue`. While the set of consumers does not change, each partition has one
    owner, and the numbers of partitions of any two consumers differ by one at most. The first
    `take` joins; `close` leaves. A consumer that is silent for ``session_timeout`` is fenced off:
    its partitions go to other consumers, and it can no longer settle the messages that it took.
    A consumer that joins or leaves fences nobody: leased messages may be finished.

    The keys of partition ``P`` are ``reminders:P:z`` and ``reminders:P:h``, as in the article.
    Safe to share between threads, which are then one consumer, and after a fork.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        partitions: int,
        *,
        visibility_timeout: Seconds = 30.0,
        max_receives: int | None = None,
        max_body_bytes: int = 1024 * 1024,
        session_timeout: Seconds = 10.0,
        record_errors: RecordErrors = "text",
    ) -> None:
        """Set up the client. Nothing is sent before the first operation.

        Args:
            client: any redis-py client, as in `ackq.Queue`.
            name: name of the queue. In a cluster it needs a hash tag: ``{reminders}``.
            partitions: how many, 1 to 1024; the same for all producers and consumers.
            visibility_timeout: as in `DelayQueue`.
            max_receives: as in `DelayQueue`.
            max_body_bytes: as in `DelayQueue`.
            session_timeout: seconds of silence after which a consumer is fenced off. Defaults
                to 10.
            record_errors: as in `DelayQueue`.

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: a setting is out of range.
        """
        config = QueueConfig(
            in_seconds(visibility_timeout),
            max_receives,
            "front",
            max_body_bytes,
            record_errors=record_errors,
        )
        group = GroupSpec.of(name, partitions, session_timeout)
        super().__init__(client, name)
        self._spec = DelaySpec.partitioned(name, config, group, self._block_limit, SYSTEM)
        self._members = ConsumerGroup(client, name, partitions, session_timeout=session_timeout)

    @classmethod
    def from_url(cls, url: str | None, name: str, partitions: int, **settings: Any) -> Self:
        """Return queue ``name`` on the server at ``url``, with the settings of the class.

        Args:
            url: as in `redis.Redis.from_url`. None: use the embedded server; start it if needed.
            name: name of the queue.
            partitions: how many.
            settings: the keyword arguments of the class.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), name, partitions, **settings)

    @property
    def assigned(self) -> tuple[int, ...]:
        """The partitions in the last known assignment of this consumer; empty before it joins."""
        return self._members.partitions

    def join(self) -> tuple[int, ...]:
        """Join the consumers without taking messages, and return this consumer's partitions."""
        return self._members.join().partitions

    def close(self) -> None:
        """Leave the consumers and close the connections. Leases continue until they end."""
        self._members.close()
        super().close()

    def _join(self) -> Session | None:
        self._members.join()
        return self._members.session
