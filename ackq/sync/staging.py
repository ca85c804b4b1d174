"""`Staging`: rows that become visible with a commit, for writers of batches. Blocking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import redis

from ackq.config import QueueConfig
from ackq.keys import QueueKeys
from ackq.protocol import staging, staging_delay, staging_topic
from ackq.protocol.spec import QueueSpec
from ackq.protocol.staging import Delayed, Mover, StagingSpec
from ackq.protocol.staging_keys import Staged, StagingKeys
from ackq.protocol.topic_keys import TopicKeys
from ackq.protocol.topic_spec import TopicConfig, TopicSpec
from ackq.sync.client import Client, client_of


class StagingBase(Client):
    """What stages rows and commits them by the batch, whatever they go to."""

    _staging: StagingSpec

    def stage(
        self,
        batch: int,
        staged: Staged,
        bodies: Sequence[bytes],
        delayed: Sequence[Delayed] = (),
    ) -> None:
        """Put rows aside for the commit of ``batch``, and count them in ``staged``.

        Guarantee: nobody sees them before the commit. Without one they expire after a day. No
        call is sent twice, since its rows would be there twice: after any error start anew with
        another `Staged`. One round trip per 2,000 rows or 1 MiB.

        Args:
            batch: its number, 0 to 2**53 - 1.
            staged: of this attempt of this task alone; it may be passed again to add more.
            bodies: the first comes first.
            delayed: pairs of the time when a message becomes ready, in microseconds since the
                epoch, and its body.

        Raises:
            ConfigurationError: the number or the task's name cannot be one.
            StagingLost: the batch was aborted, or a day has passed.
            UnknownOutcome: the reply was lost.
        """
        self._run(staging.stage(self._staging, batch, staged, bodies, delayed))

    def commit(self, batch: int, tasks: Iterable[Staged]) -> int:
        """Make the rows of ``tasks`` visible, once, and return how many that were.

        Guarantee: one script decides. Before it a crash leaves nothing to see; after it all
        rows arrive, in steps of at most 1,000, even if this process dies: what is left is moved
        by the next commit, or by the next consumer that takes. A batch that this writer has
        committed before is dropped and counted as 0, and so is one with a lower number. Other
        staged rows of the batch, of attempts that are not named, are deleted. Safe to repeat.

        Args:
            batch: its number.
            tasks: what each task staged.

        Raises:
            StagingLost: rows of a task are gone; nothing was committed.
        """
        return self._run(staging.commit(self._staging, batch, tasks, self._mover()))

    def finish(self) -> int:
        """Move in what is committed and not there yet, of any writer; count the lists."""
        return self._run(staging.finish(self._staging, self._mover()))

    def abort(self, batch: int) -> int:
        """Delete what is staged for ``batch`` and not committed; return how many lists.

        What was committed is left alone, even where it has not arrived yet.
        """
        return self._run(staging.abort(self._staging, batch))

    def discard(self, batch: int, staged: Staged) -> None:
        """Delete what one attempt of a task staged, unless it is committed."""
        self._run(staging.discard(self._staging, batch, staged))

    def committed(self) -> int | None:
        """Return the last batch that this writer committed; None: it has committed none."""
        return self._run(staging.committed(self._staging))

    def forget(self) -> None:
        """Forget the last batch, of a writer that will never come back."""
        self._run(staging.forget(self._staging))

    def now(self) -> int:
        """Return the server's time in microseconds since the epoch."""
        return self._run(staging.now())

    def _mover(self) -> Mover:
        raise NotImplementedError


class Staging(StagingBase):
    """Rows for the list queue ``name``, staged and committed under the name of a ``writer``."""

    def __init__(self, client: redis.Redis | redis.RedisCluster, name: str, writer: str) -> None:
        """Prepare; nothing is sent before the first operation.

        Args:
            client: any redis-py client, as in `ackq.Queue`.
            name: of the queue. In a cluster it needs a hash tag: ``{jobs}``.
            writer: whose batches are numbered, 1 to 200 bytes; the same after a restart.

        Raises:
            QueueNameError: the queue's name cannot be used.
            ConfigurationError: the writer's name cannot be used.
        """
        self._spec = QueueSpec(name, QueueKeys.of(name), QueueConfig())
        self._staging = StagingSpec(f"queue {name!r}", StagingKeys.of_queue(name), writer)
        super().__init__(client, name)

    @classmethod
    def from_url(cls, url: str | None, name: str, writer: str) -> Self:
        """Return the same on the server at ``url``; None: the embedded one.

        Raises:
            ConfigurationError: the URL cannot be read; the error does not show its password.
            ServerNotFound: no URL, and no redis-server is at hand.
        """
        return cls(client_of(url), name, writer)

    def _mover(self) -> Mover:
        return lambda name: staging.into_queue(self._spec, name)


class TopicStaging(StagingBase):
    """Rows for the topic ``name``, which get their indexes after the commit, chunk by chunk."""

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        writer: str,
        **settings: Any,
    ) -> None:
        """Prepare; nothing is sent before the first operation.

        Args:
            client: as in `Staging`.
            name: of the topic. In a cluster it needs a hash tag.
            writer: as in `Staging`.
            settings: ``max_age`` and ``max_messages`` as in `ackq.topic.Topic`.

        Raises:
            QueueNameError: the topic's name cannot be used.
            ConfigurationError: the writer's name or a setting cannot be used.
        """
        self._spec = TopicSpec(name, TopicKeys.of(name), TopicConfig(**settings))
        keys = StagingKeys.of_topic(name, staging_topic.how(self._spec.config))
        self._staging = StagingSpec(f"topic {name!r}", keys, writer)
        super().__init__(client, name)

    def _mover(self) -> Mover:
        return lambda name: staging_topic.move(self._spec, self._staging.keys, name)


class DelayStaging(StagingBase):
    """Rows for a delay queue; made by `row`, and all of them are ``bodies``, none ``delayed``."""

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        topic: str,
        writer: str,
        *,
        partitions: int | None = None,
    ) -> None:
        """Prepare; nothing is sent before the first operation.

        Args:
            client: as in `Staging`.
            topic: of the delay queue. In a cluster it needs a hash tag.
            writer: as in `Staging`.
            partitions: of a partitioned delay queue, 1 to 1024. Defaults to None: it has none.

        Raises:
            QueueNameError: the topic's name cannot be used.
            ConfigurationError: the writer's name or the number of partitions cannot be used.
        """
        self._spec = staging_delay.spec_of(topic, partitions)
        keys = StagingKeys.of_topic(topic, staging_delay.how(self._spec))
        self._staging = StagingSpec(f"delay queue {topic!r}", keys, writer)
        super().__init__(client, topic)

    def row(self, key: str, due: int, body: bytes) -> bytes:
        """Return a message as it is staged.

        Args:
            key: of the message, 1 to 512 bytes.
            due: when it is ready, in microseconds since the epoch.
            body: as it will be delivered.

        Raises:
            InvalidMessage: the key cannot be one.
            ConfigurationError: ``due`` is out of range.
        """
        return staging_delay.row(self._spec, key, due, body)

    def _mover(self) -> Mover:
        return lambda name: staging_delay.move(self._spec, self._staging.keys, name)
