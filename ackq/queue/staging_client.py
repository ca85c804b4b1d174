"""`Staging`: rows for a list queue that become visible with a commit. Blocking."""

from __future__ import annotations

from typing import Self

import redis

from ackq.config import QueueConfig
from ackq.core.client import client_of
from ackq.queue import handed_over
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from ackq.staging.client import StagingBase
from ackq.staging.keys import StagingKeys
from ackq.staging.operations import Mover, StagingSpec


class Staging(StagingBase):
    """Rows for the list queue ``name``, staged and committed under the name of a ``writer``."""

    def __init__(self, client: redis.Redis | redis.RedisCluster, name: str, writer: str) -> None:
        """Set up the client. Nothing is sent before the first operation.

        Args:
            client: any redis-py client, as in `ackq.Queue`.
            name: name of the queue. In a cluster it needs a hash tag: ``{jobs}``.
            writer: name of the writer that numbers the batches, 1 to 200 bytes. It must be the
                same after a restart.

        Raises:
            QueueNameError: the queue's name cannot be used.
            ConfigurationError: the writer's name cannot be used.
        """
        self._spec = QueueSpec(name, QueueKeys.of(name), QueueConfig())
        self._staging = StagingSpec(f"queue {name!r}", StagingKeys.of_queue(name), writer)
        super().__init__(client, name)

    @classmethod
    def from_url(cls, url: str | None, name: str, writer: str) -> Self:
        """Return a `Staging` on the server at ``url``; None: the embedded server.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), name, writer)

    def _mover(self) -> Mover:
        return lambda name: handed_over.into_queue(self._spec, name)
