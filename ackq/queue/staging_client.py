"""`Staging`: rows for a list queue that become visible with a commit. Blocking."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn, Self

import redis
from redis.exceptions import ResponseError

from ackq.config import PopFrom, QueueConfig
from ackq.core.client import client_of
from ackq.core.effects import Operation
from ackq.core.io.outside import SYSTEM
from ackq.errors import GroupsMismatch
from ackq.queue import held_lists, record
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from ackq.staging.client import StagingBase
from ackq.staging.keys import Staged, StagingKeys
from ackq.staging.operations import Mover, StagingSpec


@dataclass(frozen=True, slots=True)
class _QueueStaging(StagingSpec):
    queue: QueueSpec

    def raise_for_reply(self, error: ResponseError) -> Operation[NoReturn]:
        """Raise the error that a reply means, as for the queue's own scripts."""
        try:
            yield from record.raise_for_reply(self.queue, error, self.keys.types())
        except GroupsMismatch as mismatch:
            what = "Its consumers do not take staged rows, so Spark cannot write to this queue"
            raise record.refusal(self.queue.name, what, mismatch) from None
        raise error  # only for mypy: the lines before always raise


class Staging(StagingBase):
    """Rows for the list queue ``name``, staged and committed under the name of a ``writer``."""

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        writer: str,
        *,
        pop_from: PopFrom = "right",
    ) -> None:
        """Set up the client. Nothing is sent before the first operation.

        Args:
            client: any redis-py client, as in `ackq.Queue`.
            name: name of the queue. In a cluster it needs a hash tag: ``{jobs}``.
            writer: name of the writer that numbers the batches, 1 to 200 bytes. It must be the
                same after a restart.
            pop_from: as in `ackq.Queue`. Defaults to "right".

        Raises:
            QueueNameError: the queue's name cannot be used.
            ConfigurationError: the writer's name cannot be used, or ``pop_from`` is no end.
        """
        config = QueueConfig(pop_from=pop_from)
        self._spec = QueueSpec(name, QueueKeys.of(name, pop_from), config, outside=SYSTEM)
        keys = StagingKeys.of_queue(name)
        self._staging = _QueueStaging(f"queue {name!r}", keys, writer, self._spec)
        super().__init__(client, name)

    @classmethod
    def from_url(
        cls, url: str | None, name: str, writer: str, *, pop_from: PopFrom = "right"
    ) -> Self:
        """Return a `Staging` on the server at ``url``; None: the embedded server.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), name, writer, pop_from=pop_from)

    def commit(self, batch: int, tasks: Iterable[Staged]) -> int:
        """Make the rows of ``tasks`` visible, once; see `ackq.staging.client.StagingBase`.

        If the queue is popped from the left, this costs one round trip more.

        Raises:
            StagingLost: rows of a task are gone; nothing was committed.
            PopFromMismatch: the queue is popped from the other end; nothing was committed.
        """
        self._run(record.record(self._spec))
        return super().commit(batch, tasks)

    def _mover(self) -> Mover:
        return lambda name: held_lists.into_queue(self._spec, name)
