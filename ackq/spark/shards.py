"""The claims of a query on all lists of its queue, and its batches, each of which is one claim."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from uuid import uuid4

from ackq.core.claim_groups import Claim
from ackq.core.claims_client import ClaimsBase
from ackq.core.client import Client
from ackq.core.io.outside import SYSTEM
from ackq.delay.client import DelayQueue
from ackq.delay.staged_rows import move, spec_of
from ackq.errors import CheckpointMismatch, ClaimLost, Fenced
from ackq.queue.client import Queue
from ackq.queue.messages import QueueStats
from ackq.spark import offsets
from ackq.spark.claim_reader import delay_claims, list_claims
from ackq.spark.connection import retry
from ackq.spark.offsets import Offset
from ackq.spark.options import Reading
from ackq.staging.recovery import UnfinishedCommits

T = TypeVar("T")

_LOG = logging.getLogger("ackq.spark")

#: The other cause of `Fenced`. Spark does not tell a source which query it belongs to.
READ_TWICE = (
    "If only one query uses the group, that query reads the queue twice, as in a self-join or a"
    " union with itself: read the queue once and join within foreachBatch, or read a topic"
)
#: The states that are counted for the progress of a query.
COUNTED = ("ready", "in_flight", "claimed", "delayed", "dead")
#: Seconds for which acked messages stay readable, in case the commit log is lost.
KEEP = 600.0
#: The number of messages that means no limit.
UNLIMITED = 2**53 - 1
#: If the clock is behind the last number, the next one is higher by a random number up to this one.
#: So a Redis that was restored from a backup does not use a number again.
STEP = 1 << 20


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
    """The claims of one run of a query. Calls are retried while Redis is unreachable.

    A topic has no claims, so two runs are kept apart by the checkpoint alone. All methods raise
    `Fenced` if another run took over the group.
    """

    def __init__(self, reading: Reading) -> None:
        """Take over the group, and renew its leases, which may be about to end.

        Lists that another process of the same run has taken over are adopted instead.
        """
        self._reading, self.source = reading, reading.source
        #: Names the source and its group in folders and keys.
        self.writer = hashlib.sha256(reading.source.encode()).hexdigest()[:12]
        names = () if reading.target.kind == "topic" else reading.target.lists
        is_delay = reading.target.kind == "delayQueue"
        # Not the claims that this process has opened to read: these have an epoch.
        opened = (delay_claims if is_delay else list_claims).__wrapped__
        self._claims: list[ClaimsBase] = [opened(reading, name) for name in names]
        self._queues = [open_queue(reading, name) for name in names]
        self._commits = DelayCommits(reading) if is_delay else None
        taken: Mapping[str, int] = json.loads(reading.epochs)
        for claim in self._claims:
            if claim.name in taken:
                claim.adopt(taken[claim.name])
            else:
                self._try(claim.begin)
        self.check_group()
        numbers = self._each(lambda claim: claim.numbers())
        #: The highest numbers of claims that are known and acked, and whether Redis knew the group.
        self._last = max((last for last, _ in numbers), default=0)
        self._acked = max((acked for _, acked in numbers), default=0)
        self._is_known = any(claim.epoch > 1 for claim in self._claims)
        #: When this run took over, in µs since the epoch: later than all earlier runs.
        self.began = self._try(self._claims[0].now) if self._claims else offsets.now()
        self._clock = self.began - _monotonic()

    @property
    def epochs(self) -> str:
        """The epochs under which the lists are claimed, for `Reading.epochs`."""
        return json.dumps({claim.name: claim.epoch for claim in self._claims})

    def batch(self, number: int, end: Offset) -> Batch:
        """Return the batch that ends at an offset; ``number`` is Spark's."""
        version = end["batch"] if "batch" in end else end["index"]
        return Batch(number, self.writer, version, offsets.messages(end), self)

    def check_checkpoint(self, last_done: Offset | None, last: Offset | None) -> None:
        """Check that the checkpoint and Redis agree, before anything is claimed, read or acked.

        Args:
            last_done: where the last batch that is done ends; None: there is none.
            last: where the last one that is planned ends; the same, if no other is planned.

        Raises:
            CheckpointMismatch: one of them is older.
        """
        if last is None or not self._claims:
            return
        (planned,) = offsets.read(last, self.source, "batch")
        (finished,) = (0,) if last_done is None else offsets.read(last_done, self.source, "batch")
        if not planned:
            return  # an empty checkpoint begins with whatever is not acked
        about = f"{self.source}: "
        if self._acked > planned:
            raise CheckpointMismatch(
                f"{about}the checkpoint is older than Redis: it ends with batch {planned}, but"
                f" batch {self._acked} is acked. It was restored from a backup, or is a copy that"
                " another run went on with. Nothing was claimed or acked. Restore the newest"
                " checkpoint, or begin with an empty one: the messages that are not acked are read"
                " first, and none is lost"
            )
        if self._is_known and max(self._last, self._acked) < finished:
            lost = (
                f"{about}Redis is older than the checkpoint: it knows claims up to batch"
                f" {max(self._last, self._acked)}, but the checkpoint has finished batch"
                f" {finished}. Redis was restored from a backup, so messages that were acked since"
                " are in the queue again"
            )
            if self._reading.fail_on_data_loss:
                raise CheckpointMismatch(
                    f"{lost}. Nothing was claimed or acked. Set failOnDataLoss=false to go on, and"
                    " to read these messages again"
                )
            _LOG.warning("%s, and are read again. failOnDataLoss is false", lost)

    def check_group(self) -> None:
        """Check that no other query took over the group, and renew the leases."""
        self._try(self.renew_leases)

    def raise_if_fenced(self, error: BaseException) -> None:
        """Raise `Fenced` from another error, if another run has taken over."""
        try:
            self.check_group()
        except Fenced as fenced:
            raise fenced from error
        except Exception:  # Redis cannot be reached: the first error tells more
            return

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

    def open(self) -> dict[int, Claim]:
        """Return the unacked claims by number, oldest first, added up over the lists."""
        rows = Counter[int]()
        for claims in self._each(lambda each: each.open()):
            for claim in claims:
                rows[claim.batch] += claim.rows
        return {batch: Claim(batch, rows[batch]) for batch in sorted(rows)}

    def claim(self, after: int, messages: int) -> Claim | None:
        """Claim the next batch, with a share of each list; None if no message is ready."""
        self._finish_commits()
        # Also if no message is ready: each list has seen the number, and refuses a lower one.
        batch = self._last = self._following(after)
        lists = len(self._claims)
        size, first, rows = self._reading.max_bytes, batch % lists, 0
        part = -(-size // lists) if size else None
        # Each batch starts with a different list, so that none starves.
        for left, each in enumerate(self._claims[first:] + self._claims[:first]):
            share = messages if messages == UNLIMITED else -((rows - messages) // (lists - left))
            if share:
                claim = partial(each.claim, after, messages=share, size=part, batch=batch)
                claimed = self._try(claim)
                rows += claimed.rows if claimed else 0
        return Claim(batch, rows) if rows else None

    def _following(self, after: int) -> int:
        """Return the number of the next claim, which no claim of the group has had.

        It is the server's time in µs, so that it stays unique if Redis or a checkpoint is restored.
        """
        known = max(after, self._last)
        return max(known + 1 + secrets.randbelow(STEP), self._clock + _monotonic())

    def planned(self, claim: Claim) -> dict[str, int]:
        """Return how many messages of a batch each list has, where there are any.

        Raises:
            Fenced: another query, or another reader in this query, took over the group.
            CheckpointMismatch: the batch is acked and deleted.
            ClaimLost: some messages are gone, and ``failOnDataLoss`` is set.
        """
        # Two readers in one query fence each other here, before a batch has run.
        self.check_group()
        batch = claim.batch
        parts = self._each(lambda each: each.readable(batch, batch))
        named = zip(self._reading.target.lists, parts, strict=True)
        found = {name: part[0].rows for name, part in named if part}
        if (rows := sum(found.values())) == claim.rows:
            return found
        if self._acked >= batch:
            raise CheckpointMismatch(
                f"{self.source}: the checkpoint is older than Redis: batch {batch} is"
                " planned in it, but was acked, so a run has finished it. The newest file in the"
                " folder commits of the checkpoint is missing. Restore it, or begin with an empty"
                " checkpoint: the messages that are not acked are read first, and none is lost"
            )
        lost = (
            f"{self.source}: the checkpoint planned batch {batch} with {claim.rows} messages, but"
            f" {rows} are left. The others returned to the queue (the lease of claimTimeoutMs"
            " ended, or the claim was released), were purged, or were lost by Redis"
        )
        if self._reading.fail_on_data_loss:
            raise ClaimLost(
                f"{lost}. Set failOnDataLoss=false to go on without them",
                group=self._reading.group,
                batch=batch,
            )
        _LOG.warning("%s. failOnDataLoss is false, so the query goes on", lost)
        return found

    def ack(self, up_to: int, keep: float = KEEP) -> int:
        """Ack the finished batches; return the number of messages that were still claimed."""
        return sum(self._each(lambda each: each.ack(up_to, keep=keep)))

    def forget(self, up_to: int) -> None:
        """Delete the messages that were kept after their ack."""
        self._each(lambda each: each.forget(up_to))

    def ready(self) -> int:
        """Return the number of messages that can be claimed now."""
        self._finish_commits()
        return self._try(lambda: sum(queue.stats().ready for queue in self._queues))

    def counts(self) -> dict[str, int]:
        """Count the messages by state, for the progress of a query, without retries."""
        totals = Counter[str]()
        for queue in self._queues:
            stats = queue.stats()
            totals += Counter(ready=stats.ready, delayed=stats.delayed, dead=stats.dead)
            if isinstance(stats, QueueStats):
                totals += Counter(claimed=stats.claimed, in_flight=stats.in_flight)
            else:
                claimed = sum(claim.rows for claim in queue.claims())
                in_flight = max(0, stats.in_flight - claimed)
                totals += Counter(claimed=claimed, in_flight=in_flight)
        return {state: totals[state] for state in COUNTED}

    def _finish_commits(self) -> None:
        if self._commits is not None:
            self._try(self._commits.finish)

    def _each(self, call: Callable[[ClaimsBase], T]) -> list[T]:
        return [self._try(partial(call, claims)) for claims in self._claims]

    def _try(self, call: Callable[[], T]) -> T:
        try:
            return retry(call, self._reading.retry_timeout)
        except Fenced as error:
            raise Fenced(f"{error}. {READ_TWICE}", group=error.group) from None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, named by the claim that it consists of, or by the last index of a topic.

    Spark's number of a batch is used again if a checkpoint is restored, so it names nothing.
    """

    #: Spark's number, for people.
    number: int
    writer: str
    #: The number of the claim, which rises from batch to batch.
    version: int
    rows: int
    #: The claims of the run that writes it.
    claims: Shards = field(compare=False)
    #: Names the attempt of this process.
    token: str = field(default_factory=lambda: uuid4().hex, compare=False)

    @property
    def name(self) -> str:
        """The name: unique to the claim, and the same in every run. Names sort as batches do."""
        return f"{self.writer}-{self.version:016d}"

    @property
    def draft(self) -> str:
        """The name of what this attempt writes before it is published: name, run, attempt."""
        return f"{self.name}.{self.claims.began:016d}.{self.token}"


def _monotonic() -> int:
    return time.monotonic_ns() // 1000
