"""`DelayClaims`: a delay queue's messages in batches, for engines that replay batches."""

from __future__ import annotations

import redis

from ackq.config import QueueConfig, Seconds, in_seconds
from ackq.core.claim_groups import Claim
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

    def begin(self) -> int:
        """Take over the group, and return its epoch. A driver calls this once, first.

        The previous driver is fenced. Its open claims do not change. Call `beat` next, since
        their leases may end soon. If a release was interrupted, this finishes it. Cost: two round
        trips.
        """
        return self._run(claims.begin(self._group))

    def open(self) -> list[Claim]:
        """List the claims that are neither acked nor being returned, oldest first.

        A claim that its process did not finish is included, with the messages claimed so far. A
        claim keeps its rows even if messages left it. Cost: three round trips, and one per claim.

        Raises:
            Fenced: another process took over the group, and may be claiming.
        """
        return self._run(claims.open_claims(self._group))

    def claim(
        self, after: int, *, messages: int, size: int | None = None, batch: int | None = None
    ) -> Claim | None:
        """Claim the next ready messages as a batch, by ready time; None if there are none.

        Each claim counts as a delivery of its messages, but no claim dead-letters them: the limit
        ``max_receives`` is one of consumers. If this raises, call it again with the same
        arguments: it continues the claim, until `begin` is called again or a later ``after`` is
        given. Cost: one round trip, and one per 300 messages.

        Args:
            after: as in `ackq.queue.Claims.claim`.
            messages: how many at most.
            size: as in `ackq.queue.Claims.claim`.
            batch: as in `ackq.queue.Claims.claim`.

        Raises:
            Fenced: another process took over the group; nothing more was claimed.
            ConfigurationError: `begin` was not called, or ``batch`` was used before.
            KeyTypeError: a key of the queue has another type; nothing was changed.
        """
        return self._run(claims.claim(self._group, after, messages, size, batch))

    def ack(self, up_to: int) -> int:
        """Delete the messages of all claims up to batch ``up_to``, and return how many.

        Messages that left their claims stay as they are. An ack that was interrupted is finished
        by the next one. Cost: one round trip, and one per claim and 300 messages or 8 MiB.

        Raises:
            Fenced: another process took over the group.
            ConfigurationError: `begin` was not called.
        """
        return self._run(claims.ack(self._group, up_to))

    def beat(self) -> None:
        """Renew leases of open claims that have less than two thirds of ``timeout`` left.

        Cost: one round trip, one per claim, and one per 500 leases to renew.

        Raises:
            Fenced: another process took over the group.
            ConfigurationError: `begin` was not called.
        """
        self._run(claims.beat(self._group))

    def readable(self, first: int, last: int) -> list[Claim]:
        """List the open claims from batch ``first`` to ``last``.

        Cost: two round trips, and one per open claim.
        """
        return self._run(claims.readable(self._group, first, last))

    def read(self, batch: int, start: int, count: int) -> list[ClaimedMessage | None]:
        """Read up to ``count`` messages of a claim from place ``start`` on, counted from 0.

        Any process of the query may read, without `begin`. Cost: one round trip.

        Returns:
            1 to ``count`` messages, at most 300 or 1 MiB; read the rest with another call. None
            stands for a message that left the claim, or for one that the claim never had.
        """
        return self._run(claims.read(self._group, batch, start, count))

    def release(self) -> int:
        """Return all open claims to the queue, fence the group, and return how many messages.

        The messages are ready since their former times, so they keep their order, and these
        deliveries do not count. After `begin`, this needs the epoch. Without `begin`, it releases
        all claims of the group, for operators. If it is interrupted, call it or `begin` again;
        otherwise the rest is ready when the leases end. Cost: one round trip per 300 messages.

        Raises:
            Fenced: another process took over the group.
        """
        return self._run(claims.release(self._group))
