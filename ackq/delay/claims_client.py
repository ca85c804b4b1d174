"""`DelayClaims`: a delay queue's messages in batches, for engines that replay batches."""

from __future__ import annotations

import redis

from ackq.config import QueueConfig, Seconds, in_seconds
from ackq.core.claims_client import ClaimsBase
from ackq.core.io.outside import SYSTEM
from ackq.delay import claims
from ackq.delay.claims import ClaimedMessage
from ackq.delay.messages import DelaySpec


class DelayClaims(ClaimsBase):
    """A group of claims on the delay queue ``name``: batches of ready messages.

    Guarantee: at least once, never early, and exact replay. Messages stay where they are, each
    under a lease. A claim has the same messages in the same order until it is acked, whichever
    process dies. If its leases are not renewed, its messages are ready again, in their order, for
    consumers of any kind, also those that know no claims.

    A message leaves its claim only if it is canceled with ``in_flight=True``, if the queue is
    purged, if another consumer takes it after its lease has ended, or if a client of the article
    pushes its key again. The other messages keep their places.

    To claim from a partitioned queue, use a group for each partition; partition 3 of ``invoices``
    is named ``invoices:3``. Claims do not join the consumers among whom partitions are divided.

    A group has one driver at a time: the last one that called `begin`. Changes by an earlier
    driver raise `Fenced`. All operations can be repeated; if a reply is lost, ackq does so itself.
    Each call in Redis is bounded: 300 messages, and 1 MiB of bodies for a read.

    Safe to share between threads, and after a fork. It opens its own connections with the
    client's settings. Close it, or use it as a context manager.
    """

    _group: claims.Group
    _operations = claims

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        group: str,
        *,
        timeout: Seconds = 604_800.0,
    ) -> None:
        """Set up group ``group`` of queue ``name``. Nothing is sent before the first operation.

        Args:
            client: as in `ackq.queue.Claims`.
            name: name of the queue. In a cluster it needs a hash tag: ``{reminders}``.
            group: name of the group, as in `ackq.queue.Claims`.
            timeout: seconds that leases last, from 1. `beat` renews those that have less than two
                thirds of it left. Defaults to 604,800, a week.

        Raises:
            QueueNameError: the name or the group cannot be used.
            ConfigurationError: the timeout is out of range.
        """
        (keys,) = DelaySpec.plain(name, QueueConfig(), 1.0, SYSTEM).partitions
        self._group = claims.Group(name, keys, group, SYSTEM, in_seconds(timeout))
        super().__init__(client, name)

    def read(self, batch: int, start: int, count: int) -> list[ClaimedMessage | None]:
        """Read up to ``count`` messages of a claim from place ``start`` on, counted from 0.

        Any process of the query may read, without `begin`. Cost: one round trip.

        Returns:
            1 to ``count`` messages, at most 300 or 1 MiB; read the rest with another call. None
            stands for a message that left the claim, or for one that the claim never had.
        """
        return self._run(claims.read(self._group, batch, start, count))
