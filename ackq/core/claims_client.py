"""`ClaimsBase`: what the clients of claims have in common. Blocking."""

from __future__ import annotations

from typing import Any, Self

from ackq.config import Seconds
from ackq.core import claim_groups
from ackq.core.claim_groups import Claim, ClaimGroup, Operations
from ackq.core.client import Client, client_of


class ClaimsBase(Client):
    """A group of claims on a queue of any kind."""

    _group: ClaimGroup
    _operations: Operations

    @classmethod
    def from_url(cls, url: str | None, name: str, group: str, **settings: Any) -> Self:
        """Return group ``group`` of queue ``name`` on the server at ``url``.

        Args:
            url: as in `redis.Redis.from_url`. None: use the embedded server; start it if needed.
            name: name of the queue.
            group: name of the group.
            settings: the keyword arguments of the class.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), name, group, **settings)  # type: ignore[call-arg]

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._key

    @property
    def group(self) -> str:
        """The name of the group."""
        return self._group.name

    @property
    def epoch(self) -> int:
        """The epoch that `begin` returned; 0 before `begin` and after `release`."""
        return self._group.epoch

    def adopt(self, epoch: int) -> None:
        """Use an ``epoch`` that `begin` returned in another process of the same driver.

        Nothing is sent. Later changes raise `Fenced` if this is not the group's epoch.
        """
        self._group.epoch = epoch

    def numbers(self) -> tuple[int, int]:
        """Return the highest batch numbers that the group claimed and acked; 0 before the first."""
        return self._run(claim_groups.numbers(self._group))

    def now(self) -> int:
        """Return the server's time in microseconds since the epoch."""
        return self._run(claim_groups.now(self._group))

    def begin(self) -> int:
        """Take over the group, and return its epoch. A driver calls this once, first.

        The previous driver is fenced. Its open claims do not change. Call `beat` next, since
        their leases may end soon. A delay queue finishes a release that was interrupted. Cost: one
        round trip, and another one for a delay queue.
        """
        return self._run(self._operations.begin(self._group))

    def open(self) -> list[Claim]:
        """List the claims that are neither acked nor returned to the queue, oldest first.

        A claim that its process did not finish is included, with the messages claimed so far. In a
        delay queue, a claim keeps its rows even if messages left it. Cost: one round trip, and one
        per 100 claims and committed lists of any group; three for a delay queue, and one per claim.

        Raises:
            Fenced: another process took over the group, and may be claiming.
        """
        return self._run(self._operations.open_claims(self._group))

    def claim(
        self, after: int, *, messages: int, size: int | None = None, batch: int | None = None
    ) -> Claim | None:
        """Claim the next messages as a batch; None if none is ready or the queue is paused.

        If this raises, call it again with the same arguments: it continues the claim, until `begin`
        is called again or a later ``after`` is given.

        From a list, messages whose leases ended come first, then due messages, then the lists.
        Receive counts are lost. Cost: two round trips for 1,000 messages, or for a whole queue of
        at most ``messages``; one more per 1,000 messages or 1 MiB, or per 500 redelivered messages.

        From a delay queue, messages come by ready time. The claim counts as a delivery, but dead-
        letters none: the limit ``max_receives`` is one of consumers. Cost: one round trip, and one
        per 300 messages.

        Args:
            after: the last planned batch. The claim's number is higher, and higher than any that
                the group has used.
            messages: how many at most.
            size: bytes of bodies after which no more messages are taken; the last message may
                exceed it. Defaults to None, no limit.
            batch: the claim's number, if not the next one, so that several queues can use the
                same number. Then, if there are no messages, a claim of 0 rows is returned, and
                stays one of 0 rows.

        Raises:
            Fenced: another process took over the group; nothing more was claimed.
            ConfigurationError: `begin` was not called, or ``batch`` was used before.
            KeyTypeError: a key of the queue has another type; nothing was changed.
        """
        return self._run(self._operations.claim(self._group, after, messages, size, batch))

    def ack(self, up_to: int, *, keep: Seconds = 600.0) -> int:
        """Ack all open claims up to batch ``up_to``, and return how many messages they had.

        A claim that was acked before counts 0. So does a claim that is being returned to the
        queue: its messages are delivered again. Cost: one round trip, and one per claim.

        A delay queue deletes the messages, except those that left their claims. An ack that was
        interrupted is finished by the next one. Cost: one round trip, and one per claim and 300
        messages or 8 MiB.

        Args:
            up_to: the last finished batch.
            keep: seconds that acked messages can still be read; 0: delete them. A delay queue keeps
                none. Defaults to 600.

        Raises:
            Fenced: another process took over the group.
            ConfigurationError: `begin` was not called.
        """
        return self._run(self._operations.ack(self._group, up_to, keep))

    def forget(self, up_to: int) -> None:
        """Delete the claims up to batch ``up_to`` that this driver acked and kept.

        Those of earlier drivers expire by themselves. Cost: one round trip for each.

        Raises:
            Fenced: another process took over the group.
            ConfigurationError: `begin` was not called.
        """
        self._run(self._operations.forget(self._group, up_to))

    def beat(self) -> None:
        """Renew the leases of all open claims to ``timeout`` from now. Cost: two round trips.

        In a delay queue, only those that have less than two thirds of it left. Cost: one round
        trip, one per claim, and one per 500 leases to renew.

        Raises:
            Fenced: another process took over the group.
            ConfigurationError: `begin` was not called.
        """
        self._run(self._operations.beat(self._group))

    def readable(self, first: int, last: int) -> list[Claim]:
        """List the readable claims, open or kept, from batch ``first`` to ``last``.

        A delay queue keeps none after its ack. Claims that are being returned to the queue, and
        claims of 0 rows, are not included. Cost: one round trip, and one per batch that is not
        open; two for a delay queue, and one per open claim.
        """
        return self._run(self._operations.readable(self._group, first, last))

    def release(self) -> int:
        """Return all open claims to the queue, fence the group, and return how many messages.

        The messages go to the front of the list, in their order. In a delay queue they are ready
        since their former times, and these deliveries do not count. After `begin`, this needs the
        epoch. Without `begin`, it releases all claims of the group, for operators. If it is
        interrupted, the rest of a list is returned when the next consumer takes messages. For a
        delay queue, call it or `begin` again; otherwise the rest is ready when the leases end.

        Raises:
            Fenced: another process took over the group.
        """
        return self._run(self._operations.release(self._group))
