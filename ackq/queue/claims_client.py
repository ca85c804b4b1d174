"""`Claims`: a queue's messages in batches, for engines that replay batches, such as Spark."""

from __future__ import annotations

from typing import NoReturn

import redis
from redis.exceptions import ResponseError

from ackq.config import PopFrom, QueueConfig, Seconds, in_seconds
from ackq.core.claims_client import ClaimsBase
from ackq.core.effects import Operation
from ackq.core.io.outside import SYSTEM
from ackq.errors import GroupsMismatch
from ackq.queue import claims, record
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec


class _Claimed(QueueSpec):
    """A queue as claims see it."""

    def raise_for_reply(self, error: ResponseError) -> Operation[NoReturn]:
        """Raise the error that a reply means."""
        try:
            yield from super().raise_for_reply(error)
        except GroupsMismatch as mismatch:
            what = "A claim takes messages whatever their groups, so Spark cannot read this queue"
            raise record.refusal(self.name, what, mismatch) from None
        raise error  # only for mypy: the lines before always raise


class Claims(ClaimsBase):
    """A group of claims on the list queue ``name``: batches of messages, one lease each.

    Guarantee: at least once, and exact replay. A claim holds the same messages in the same order
    until it is acked, whichever process dies. If its lease is not renewed, its messages return to
    the front of the queue, in their order, when the next consumer of any kind takes messages.

    A group has one driver at a time: the last one that called `begin`. Changes by an earlier
    driver raise `Fenced`. All operations can be repeated; if a reply is lost, ackq does so itself.
    Each call in Redis is bounded: 1,000 messages or 1 MiB, or one rename.

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
        pop_from: PopFrom = "right",
    ) -> None:
        """Set up group ``group`` of queue ``name``. Nothing is sent before the first operation.

        Args:
            client: any redis-py client: standalone, Sentinel's `master_for`, or cluster. Its
                address, credentials, TLS and timeouts are used, but not its connections.
            name: the list that producers push to. In a cluster it needs a hash tag: ``{jobs}``.
            group: name of the group, 1 to 200 bytes of text without spaces, braces, ``*?[]\\``.
            timeout: seconds that a claim lasts after the last `beat`, from 1. Defaults to
                604,800, a week.
            pop_from: as in `ackq.Queue`. Defaults to "right".

        Raises:
            QueueNameError: the name or the group cannot be used.
            ConfigurationError: the timeout is out of range.
        """
        config = QueueConfig(pop_from=pop_from)
        spec = _Claimed(name, QueueKeys.of(name, pop_from), config, outside=SYSTEM)
        self._group = claims.Group(spec, group, in_seconds(timeout))
        super().__init__(client, name)

    def read(self, batch: int, start: int, count: int) -> list[bytes]:
        """Read messages ``start`` to ``start + count - 1`` of a claim, oldest first, from 0.

        Any process of the query may read, without `begin`. Cost: one round trip.

        Raises:
            ClaimLost: some are gone: the claim was returned, or acked and deleted.
        """
        return self._run(claims.read(self._group, batch, start, count))
