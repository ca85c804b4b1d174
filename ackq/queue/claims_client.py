"""`Claims`: a queue's messages by the batch, for engines that replay batches, such as Spark."""

from __future__ import annotations

from typing import Any, Self

import redis

from ackq.config import QueueConfig
from ackq.core.client import Client, client_of
from ackq.queue import claims
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Claim
from ackq.queue.spec import QueueSpec


class Claims(Client):
    """A group of claims on the list queue ``name``: each a batch of messages under one lease.

    Guarantee: at least once, and exact replay. A claim holds the same messages in the same order
    until it is acked, whoever dies meanwhile. If nobody renews its lease its messages go back, in
    front of the queue and in their order, when the next consumer of any kind takes something.

    A group has one driver at a time: the last that called `begin`. Whatever else an earlier one
    would change raises `Fenced`. Every operation may be repeated, and is if its reply is lost.
    Each step within Redis is bounded: 1,000 messages or 1 MiB, or one rename.

    Safe to share between threads, and after a fork. It opens connections of its own, with the
    client's settings; close it, or use it as a context manager.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        group: str,
        *,
        timeout: float = 604_800.0,
    ) -> None:
        """Prepare group ``group`` of queue ``name``; nothing is sent before the first operation.

        Args:
            client: any redis-py client: standalone, Sentinel's `master_for`, or cluster. Its
                address, credentials, TLS and timeouts are used, its connections are not.
            name: the list that producers push to. In a cluster it needs a hash tag: ``{jobs}``.
            group: names the batches, 1 to 200 bytes of text without spaces, braces, ``*?[]\\``.
            timeout: seconds that a claim stays after the last `beat`, from 1. Defaults to
                604,800, a week.

        Raises:
            QueueNameError: the name or the group cannot be used.
            ConfigurationError: the timeout is out of range.
        """
        spec = QueueSpec(name, QueueKeys.of(name), QueueConfig())
        self._group = claims.Group(spec, group, timeout)
        super().__init__(client, name)

    @classmethod
    def from_url(cls, url: str | None, name: str, group: str, **settings: Any) -> Self:
        """Return group ``group`` of queue ``name`` on the server at ``url``.

        Args:
            url: as in `redis.Redis.from_url`; None starts, or finds, the embedded server.
            name: the list that producers push to.
            group: names the batches.
            settings: the keyword arguments of `Claims`.

        Raises:
            ConfigurationError: the URL cannot be read; the error does not show its password.
            ServerNotFound: no URL, and no redis-server is at hand.
        """
        return cls(client_of(url), name, group, **settings)

    @property
    def name(self) -> str:
        """The list that producers push to."""
        return self._group.spec.name

    @property
    def group(self) -> str:
        """The name of the group."""
        return self._group.name

    @property
    def epoch(self) -> int:
        """What `begin` returned; 0 before it, and after `release`."""
        return self._group.epoch

    def begin(self) -> int:
        """Take the group over, and return its epoch. A driver calls it first, once.

        Whoever had the group before is fenced. Its open claims stay as they are; call `beat` next,
        since their leases may end soon. One round trip.
        """
        return self._run(claims.begin(self._group))

    def adopt(self, epoch: int) -> None:
        """Act under an ``epoch`` that `begin` returned in another process of the same driver.

        Nothing is sent; whatever is changed afterwards raises `Fenced` if it is not the group's.
        """
        self._group.epoch = epoch

    def open(self) -> list[Claim]:
        """List the claims that are neither acked nor given back, oldest first.

        One that its process did not finish is among them, as far as it came. One round trip per
        100 lists that are held for any group, and one more.

        Raises:
            Fenced: another process took the group over, and may be claiming.
        """
        return self._run(claims.open_claims(self._group))

    def last(self) -> int:
        """Return the highest batch that the group claimed or acked; 0 before the first."""
        return self._run(claims.last(self._group))

    def claim(
        self, after: int, *, messages: int, size: int | None = None, batch: int | None = None
    ) -> Claim | None:
        """Claim the next messages as a batch, or return None if there are none, or it is paused.

        Expired leases come first, then due messages, then the lists. Receive counts are
        forgotten. If it raises, call it again with the same arguments: it goes on with the claim
        that it began, until `begin` is called again or a later ``after`` is given. Two round
        trips for 1,000 messages, or for a whole queue that is no longer than ``messages``; one
        more per 1,000 messages or 1 MiB, or 500 that came back.

        Args:
            after: the last batch that is planned; the claim's number is higher, and higher than
                any that the group used.
            messages: how many at most.
            size: bytes of bodies after which it takes no more; one message may be over. Defaults
                to None, any.
            batch: the claim's number, if not the next one, so that several queues can use the same.
                Then a claim of 0 rows is returned where there are no messages; it leaves nothing
                behind.

        Raises:
            Fenced: another process took the group over; nothing more was claimed.
            ConfigurationError: no `begin`, or ``batch`` was used before.
            KeyTypeError: a key of the queue has another type; nothing was changed.
        """
        return self._run(claims.claim(self._group, after, messages, size, batch))

    def ack(self, up_to: int, *, keep: float = 600.0) -> int:
        """Ack all open claims up to batch ``up_to``, and return how many messages they had.

        A claim that was acked before counts 0, and so does one that is being given back: its
        messages are, or will be, delivered again. One round trip, and one per claim.

        Args:
            up_to: the last batch that is done.
            keep: seconds that what was acked can still be read; 0: it is deleted. Defaults to 600.

        Raises:
            Fenced: another process took the group over.
            ConfigurationError: no `begin`.
        """
        return self._run(claims.ack(self._group, up_to, keep))

    def forget(self, up_to: int) -> None:
        """Delete the acked claims up to batch ``up_to`` that are still kept.

        One round trip, and one per batch since the last `forget`, 1,000 at most: older ones expire
        by themselves. What is not acked stays.

        Raises:
            Fenced: another process took the group over.
            ConfigurationError: no `begin`.
        """
        self._run(claims.forget(self._group, up_to))

    def beat(self) -> None:
        """Renew the leases of all open claims, for ``timeout`` from now. Two round trips.

        Raises:
            Fenced: another process took the group over.
            ConfigurationError: no `begin`.
        """
        self._run(claims.beat(self._group))

    def look(self, first: int, last: int) -> list[Claim]:
        """List the claims from batch ``first`` to ``last`` that can be read: open or kept.

        One that is being given back is not among them, nor one of 0 rows. One round trip, and one
        per batch that is not open.
        """
        return self._run(claims.look(self._group, first, last))

    def read(self, batch: int, start: int, count: int) -> list[bytes]:
        """Read messages ``start`` to ``start + count - 1`` of a claim, oldest first, from 0.

        Needs no `begin`: any process of the query may read. One round trip.

        Raises:
            ClaimLost: they are not all there: the claim was given back, or acked and deleted.
        """
        return self._run(claims.read(self._group, batch, start, count))

    def release(self) -> int:
        """Give all open claims back at once, fence the group, and return how many messages.

        They go in front of the queue, in their order. Without `begin` it releases whatever the
        group has, as an operator does; after it, it needs the epoch. If it is cut off the rest
        goes back when the next consumer takes something.

        Raises:
            Fenced: another process took the group over.
        """
        return self._run(claims.release(self._group))
