"""`DelayStaging`: rows for a delay queue that become visible with a commit. Blocking."""

from __future__ import annotations

import redis

from ackq.core.io.outside import SYSTEM
from ackq.delay import staged_rows as delay_staged
from ackq.staging.client import StagingBase
from ackq.staging.keys import StagingKeys
from ackq.staging.operations import Mover, StagingSpec


class DelayStaging(StagingBase):
    """Rows for a delay queue. Make them with `row`; pass them as ``bodies``, not ``delayed``."""

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        writer: str,
        *,
        partitions: int | None = None,
    ) -> None:
        """Set up the client. Nothing is sent before the first operation.

        Args:
            client: as in `Staging`.
            name: name of the delay queue. In a cluster it needs a hash tag.
            writer: as in `Staging`.
            partitions: how many, 1 to 1024. Defaults to None: the queue is not partitioned.

        Raises:
            QueueNameError: the queue's name cannot be used.
            ConfigurationError: the writer's name or the number of partitions cannot be used.
        """
        self._spec = delay_staged.spec_of(name, partitions, SYSTEM)
        keys = StagingKeys.of_topic(name, delay_staged.settings_suffix(self._spec))
        self._staging = StagingSpec(f"delay queue {name!r}", keys, writer)
        super().__init__(client, name)

    def row(self, key: str, due: int, body: bytes) -> bytes:
        """Return a message as a row to stage.

        Args:
            key: the message's key, 1 to 512 bytes.
            due: when it is ready, in microseconds since the epoch.
            body: the body to deliver.

        Raises:
            InvalidMessage: the key is invalid.
            ConfigurationError: ``due`` is out of range.
        """
        return delay_staged.row(self._spec, key, due, body)

    def _mover(self) -> Mover:
        return lambda name: delay_staged.move(self._spec, self._staging.keys, name)
