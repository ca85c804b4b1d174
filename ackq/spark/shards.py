"""The claims of a query on all lists or partitions of its queue, with the same batch numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar

from ackq.core.claim_groups import Claim
from ackq.core.client import Client
from ackq.core.io.outside import SYSTEM
from ackq.delay.claims_client import DelayClaims
from ackq.delay.client import DelayQueue
from ackq.delay.staged_rows import move, spec_of
from ackq.errors import Fenced
from ackq.queue.claims_client import Claims
from ackq.queue.client import Queue
from ackq.queue.inspection import total
from ackq.spark.options import Reading
from ackq.spark.retry import retry
from ackq.staging.recovery import UnfinishedCommits

T = TypeVar("T")

#: The other cause of `Fenced`. Spark does not tell a source which query it belongs to.
READ_TWICE = (
    "If only one query uses the group, that query reads the queue twice, as in a self-join or a"
    " union with itself: read the queue once and join within foreachBatch, or read a topic"
)
#: The states that are counted for the progress of a query.
COUNTED = ("ready", "in_flight", "claimed", "delayed", "dead")
#: The number of messages that means no limit.
UNLIMITED = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a batch that comes from one list."""

    queue: str
    rows: int


def open_claims(reading: Reading, queue: str) -> Claims | DelayClaims:
    """Return the claims on one list, delay queue or partition, with connections of its own."""
    client, timeout = reading.connection.client(), reading.claim_timeout
    if reading.target.kind == "delayQueue":
        return DelayClaims(client, queue, reading.group, timeout=timeout)
    end = reading.target.pop_from
    return Claims(client, queue, reading.group, timeout=timeout, pop_from=end)


#: The same, cached, so that a reused process keeps its connections.
claims_of = lru_cache(maxsize=256)(open_claims)


def open_queue(reading: Reading, queue: str) -> Queue | DelayQueue:
    """Return one list, delay queue or partition, with connections of its own."""
    client = reading.connection.client()
    if reading.target.kind == "delayQueue":
        return DelayQueue(client, queue)
    return Queue(client, queue, pop_from=reading.target.pop_from)


class DelayCommits(Client):
    """Rows that writers staged for a delay queue and committed, but did not move into it."""

    def __init__(self, reading: Reading) -> None:
        name = reading.target.name
        super().__init__(reading.connection.client(), name)
        spec = spec_of(name, reading.partitions, SYSTEM)
        self._unfinished = UnfinishedCommits(name)
        self._move = partial(move, spec, self._unfinished.keys)

    def finish(self) -> None:
        """Move rows in, as a consumer does; see `DelayQueue.take`.

        Otherwise a queue that only Spark reads would never get the rows of a dead writer. Checks
        once a second, with one command. Errors are logged.
        """
        self._run(self._unfinished.move_in(self._move))


class Shards:
    """The claims of one query. Calls are retried while Redis is unreachable.

    All methods raise `Fenced` if another query took over the group.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._claims = [open_claims(reading, name) for name in reading.target.lists]
        self._queues = [open_queue(reading, name) for name in reading.target.lists]
        self._commits = DelayCommits(reading) if reading.target.kind == "delayQueue" else None
        self._last = 0

    def begin(self) -> None:
        """Take over the group, and renew its leases, which may be about to end."""
        for claim in self._claims:
            self._try(claim.begin)
        self.check_group()
        self._last = max(self._try(claim.last) for claim in self._claims)

    @property
    def epochs(self) -> list[int]:
        """The epochs under which the lists are claimed, for `adopt`."""
        return [claim.epoch for claim in self._claims]

    def adopt(self, epochs: Sequence[int]) -> None:
        """Continue with the epochs of another process of the same query."""
        for each, epoch in zip(self._claims, epochs, strict=True):
            each.adopt(epoch)

    def check_group(self) -> None:
        """Check that no other query took over the group, and renew the leases."""
        self._try(self.renew_leases)

    def renew_leases(self) -> None:
        """Renew as many of the leases as possible, without retries."""
        failed: Exception | None = None
        for claim in self._claims:
            try:
                claim.beat()
            except Exception as error:  # go on: the other leases must still be renewed
                failed = failed or error
        if failed is not None:
            raise failed

    def open(self) -> list[Claim]:
        """Return the unacked claims, oldest first, added up over the lists."""
        rows: dict[int, int] = {}
        for each in self._claims:
            for claim in self._try(each.open):
                rows[claim.batch] = rows.get(claim.batch, 0) + claim.rows
        return [Claim(batch, rows[batch]) for batch in sorted(rows)]

    def claim(self, after: int, messages: int) -> Claim | None:
        """Claim the next batch, with a share of each list; None if no message is ready."""
        self._finish_commits()
        size = self._reading.max_bytes
        batch = max(after, self._last) + 1
        rows = 0
        for left, each in zip(range(len(self._claims), 0, -1), self._in_turn(batch), strict=True):
            share = messages if messages == UNLIMITED else -((rows - messages) // left)
            part = size and -(-size // len(self._claims))
            if share:
                rows += self._claim_one(each, after, batch, share, part)
        if not rows:
            return None
        self._last = batch
        return Claim(batch, rows)

    def ack(self, up_to: int, keep: float) -> int:
        """Ack the finished batches; return the number of messages that were still claimed.

        ``keep`` applies to list queues only. A delay queue deletes its messages at once.
        """

        def ack(each: Claims | DelayClaims) -> int:
            if isinstance(each, DelayClaims):
                return each.ack(up_to)
            return each.ack(up_to, keep=keep)

        return sum(self._try(partial(ack, claim)) for claim in self._claims)

    def forget(self, up_to: int) -> None:
        """Delete the messages that were kept after their ack."""
        for claim in self._claims:
            if isinstance(claim, Claims):
                self._try(partial(claim.forget, up_to))

    def parts(self, batch: int) -> list[Part]:
        """Return the locations of the readable messages of a batch."""
        parts = []
        for each in self._claims:
            for claim in self._try(partial(each.readable, batch, batch)):
                parts.append(Part(each.name, claim.rows))
        return parts

    def ready(self) -> int:
        """Return the number of messages that can be claimed now."""
        self._finish_commits()
        return self._try(lambda: sum(queue.stats().ready for queue in self._queues))

    def counts(self) -> dict[str, int]:
        """Count the messages by state, without retries."""
        lists = [queue.stats() for queue in self._queues if isinstance(queue, Queue)]
        if lists:
            counts = total(lists)
            return {name: getattr(counts, name) for name in COUNTED}
        totals = Counter(dict.fromkeys(COUNTED, 0))
        for queue in self._queues:
            stats, claimed = queue.stats(), sum(claim.rows for claim in queue.claims())
            totals.update(
                ready=stats.ready,
                delayed=stats.delayed,
                dead=stats.dead,
                claimed=claimed,
                in_flight=max(0, stats.in_flight - claimed),
            )
        return dict(totals)

    def _finish_commits(self) -> None:
        if self._commits is not None:
            self._try(self._commits.finish)

    def _in_turn(self, batch: int) -> list[Claims | DelayClaims]:
        """Return the lists, starting with a different one for each batch, so that none starves."""
        first = batch % len(self._claims)
        return self._claims[first:] + self._claims[:first]

    def _claim_one(
        self, each: Claims | DelayClaims, after: int, batch: int, messages: int, size: int | None
    ) -> int:
        claim = self._try(
            lambda: each.claim(after, messages=messages, size=size or None, batch=batch)
        )
        return claim.rows if claim else 0

    def _try(self, call: Callable[[], T]) -> T:
        try:
            return retry(call, self._reading.retry_timeout)
        except Fenced as error:
            raise Fenced(f"{error}. {READ_TWICE}", group=error.group) from None
