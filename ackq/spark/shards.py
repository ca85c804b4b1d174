"""The claims of a query on all lists of its queue, under the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from ackq.queue.claims_client import Claims
from ackq.queue.client import Queue
from ackq.queue.messages import Claim
from ackq.sharded.operations import total
from ackq.spark.options import Connection, Reading
from ackq.spark.retry import patiently

T = TypeVar("T")

#: What stands for no limit.
ANY = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Part:
    """What one list contributes to a batch."""

    queue: str
    rows: int


@lru_cache(maxsize=256)
def claims_of(connection: Connection, queue: str, group: str, timeout: float) -> Claims:
    """Return the claims on one list; a process that is used again keeps its connections."""
    return Claims(connection.client(), queue, group, timeout=timeout)


class Shards:
    """One query's claims. Every call is repeated while Redis is away.

    Raises `Fenced` wherever another query took the group over.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        client = reading.connection.client()
        self._claims = [
            Claims(client, name, reading.group, timeout=reading.claim_timeout)
            for name in reading.place.lists
        ]
        self._queues = [Queue(client, name) for name in reading.place.lists]
        self._last = 0

    def begin(self) -> None:
        """Take the group over, and renew its leases, which may be about to end."""
        for each in self._claims:
            self._try(each.begin)
        self._try(self.beat)
        self._last = max(self._try(each.last) for each in self._claims)

    @property
    def epochs(self) -> list[int]:
        """Under which the lists are held, for `adopt`."""
        return [each.epoch for each in self._claims]

    def adopt(self, epochs: Sequence[int]) -> None:
        """Go on where another process of the query has begun."""
        for each, epoch in zip(self._claims, epochs, strict=True):
            each.adopt(epoch)

    def beat(self) -> None:
        """Renew the leases, as many as can be; not repeated."""
        failed: Exception | None = None
        for each in self._claims:
            try:
                each.beat()
            except Exception as error:  # the others have no other heart
                failed = failed or error
        if failed is not None:
            raise failed

    def open(self) -> list[Claim]:
        """Return what is claimed and not acked, oldest first, summed up over the lists."""
        rows: dict[int, int] = {}
        for each in self._claims:
            for claim in self._try(each.open):
                rows[claim.batch] = rows.get(claim.batch, 0) + claim.rows
        return [Claim(batch, rows[batch]) for batch in sorted(rows)]

    def claim(self, after: int, messages: int) -> Claim | None:
        """Claim the next batch, of each list its share; None if there is nothing."""
        size = self._reading.max_bytes
        batch = max(after, self._last) + 1
        rows = 0
        for left, each in zip(range(len(self._claims), 0, -1), self._in_turn(batch), strict=True):
            share = messages if messages == ANY else -((rows - messages) // left)
            part = size and -(-size // len(self._claims))
            if share:
                rows += self._claim_one(each, after, batch, share, part)
        if not rows:
            return None
        self._last = batch
        return Claim(batch, rows)

    def ack(self, up_to: int, keep: float) -> int:
        """Ack what is done; return how many messages were still claimed."""
        return sum(
            self._try(lambda each=each: each.ack(up_to, keep=keep))  # type: ignore[misc]
            for each in self._claims
        )

    def forget(self, up_to: int) -> None:
        """Delete what was kept after its ack."""
        for each in self._claims:
            self._try(lambda each=each: each.forget(up_to))  # type: ignore[misc]

    def look(self, batch: int) -> list[Part]:
        """Return where the messages of a batch are, as far as they can be read."""
        parts = []
        for each in self._claims:
            for claim in self._try(lambda each=each: each.look(batch, batch)):  # type: ignore[misc]
                parts.append(Part(each.name, claim.rows))
        return parts

    def ready(self) -> int:
        """Count what could be claimed now."""
        return self._try(lambda: sum(each.stats().ready for each in self._queues))

    def counts(self) -> dict[str, int]:
        """Count the messages by where they are; not repeated."""
        counts = total([each.stats() for each in self._queues])
        return {
            "ready": counts.ready,
            "in_flight": counts.in_flight,
            "claimed": counts.claimed,
            "delayed": counts.delayed,
            "dead": counts.dead,
        }

    def _in_turn(self, batch: int) -> list[Claims]:
        """Return the lists, each batch another one first, so that none waits behind another."""
        first = batch % len(self._claims)
        return self._claims[first:] + self._claims[:first]

    def _claim_one(
        self, each: Claims, after: int, batch: int, messages: int, size: int | None
    ) -> int:
        claim = self._try(
            lambda: each.claim(after, messages=messages, size=size or None, batch=batch)
        )
        return claim.rows if claim else 0

    def _try(self, call: Callable[[], T]) -> T:
        return patiently(call, self._reading.retry_timeout)
