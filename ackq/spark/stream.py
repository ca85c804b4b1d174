"""Read queues as a stream of claims, whose numbers are in Spark's checkpoint."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ackq.core.claim_groups import Claim
from ackq.errors import Fenced, redact
from ackq.spark import offsets
from ackq.spark.claim_reader import ClaimReader, Slice
from ackq.spark.columns import columns_of
from ackq.spark.offsets import Offset, Polling
from ackq.spark.options import Reading
from ackq.spark.shards import KEEP, UNLIMITED, Shards

_LOG = logging.getLogger("ackq.spark")

#: Seconds between two counts for the progress of the query.
COUNT_INTERVAL = 1.0
#: Least messages of a batch during which the next one is claimed. A small claim takes no time that
#: is worth claiming messages before they are needed.
AHEAD_FROM = 10_000


class QueueStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads queues, delay queues, or all shards or partitions of one.

    Guarantee: at least once. Each Spark batch is one claim. So after any crash, the replayed batch
    has the same rows in the same order under the same number.
    """

    #: What executors get.
    reader = ClaimReader

    def __init__(self, reading: Reading, schema: StructType) -> None:
        self._reading = reading
        self._source = reading.source
        self._columns = columns_of(reading, schema)
        self._driver: _Driver | None = None
        self._is_checked = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Executors only read.
        return self.reader, (self._reading, self._columns)

    def initialOffset(self) -> Offset:
        """Return the initial offset of a new query, always the same."""
        return offsets.make(self._source, batch=0, rows=0)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit from ``maxMessagesPerTrigger``."""
        return ReadMaxRows(self._reading.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the number of ready messages; the query takes no more than that."""
        self._started_driver().limit_to_ready()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the batch after ``start``: an existing claim, or a new one."""
        after, _ = offsets.read(start, self._source, "batch", "rows")
        driver = self._started_driver(start, start)
        messages = limit.max_rows if isinstance(limit, ReadMaxRows) else UNLIMITED
        claim = driver.next(after, messages)
        if claim is None:
            return start
        now = offsets.now()
        return offsets.make(self._source, batch=claim.batch, rows=claim.rows, received=now)

    def reportLatestOffset(self) -> Offset | None:
        """Return the counts for the progress of the query."""
        return self._started_driver().report()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the slices of the claim that ``end`` names."""
        before, _ = offsets.read(start, self._source, "batch", "rows")
        batch, rows = offsets.read(end, self._source, "batch", "rows")
        if batch == before:
            return []
        parts = self._started_driver(start, end).planned(Claim(batch, rows))
        return [
            Slice(queue, batch, first, count, end.get("received"))
            for queue, rows in parts.items()
            for first, count in offsets.split(rows, self._reading, len(parts))
        ]

    def commit(self, end: Offset) -> None:
        """Finish all batches up to ``end``, which Spark never reads again."""
        batch, _ = offsets.read(end, self._source, "batch", "rows")
        self._started_driver(end, end).done(batch)

    def stop(self) -> None:
        """Stop the heartbeat. The claims stay for the next start of the query."""
        if self._driver is not None:
            self._driver.heartbeat.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one slice."""
        return self.reader(self._reading, self._columns).read(partition)

    def _started_driver(
        self, last_done: Offset | None = None, last: Offset | None = None
    ) -> _Driver:
        """Return the driver's state. The first call takes over the group.

        The first one that knows the checkpoint checks it; see `Shards.check_checkpoint`.
        """
        if self._driver is None:
            self._driver = _Driver(self._reading)
        self._driver.heartbeat.check()
        if last is not None and not self._is_checked:
            self._driver.shards.check_checkpoint(last_done, last)
            self._is_checked = True
        return self._driver


class _Driver:
    """The state of the driver, the only process of a query that claims and acks."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._eager = reading.ack_mode == "eager"
        self.shards = Shards(reading)
        self.heartbeat = Heartbeat(self.shards.renew_leases, reading.claim_timeout)
        #: Unacked claims, which are offered to Spark again. Only this process adds claims.
        self._open = self.shards.open()
        self._acked = 0
        #: Messages that a query with AvailableNow may still claim; None: another trigger.
        self._budget: int | None = None
        #: Most messages of a batch, as Spark said last; 0: it has not asked for one yet.
        self._limit = 0
        self._ahead: Future[Claim | None] | None = None
        self._polling = Polling(reading)
        self._batch = 0
        self._counted: Offset | None = None
        self._counted_at = -COUNT_INTERVAL

    def limit_to_ready(self) -> None:
        self._budget = self.shards.ready()

    def next(self, after: int, messages: int) -> Claim | None:
        """Return the claim after the finished batch ``after``."""
        self._end_ahead()
        self._batch, self._limit = after, messages
        if self._eager and after > self._acked:
            # Spark asks for the next batch only when its commit log has the previous one.
            self._ack(after, KEEP)
        if offered := [batch for batch in self._open if batch > after]:
            return self._open[min(offered)]
        if not self._most():
            return None
        claim = self._claim(after)
        self._note(claim)
        return claim

    def _most(self) -> int:
        """Return the most messages that the next batch may have."""
        return self._limit if self._budget is None else min(self._limit, self._budget)

    def _note(self, claim: Claim | None) -> None:
        if claim is not None:
            self._open[claim.batch] = claim
            if self._budget is not None:
                self._budget = max(0, self._budget - claim.rows)

    def _claim_ahead(self, claim: Claim) -> None:
        """Claim the batch after ``claim`` while that is read, if more messages seem to be ready.

        So a batch need not wait for its claim, which takes Redis a microsecond for each message.
        """
        is_full = 0 < self._limit <= claim.rows >= AHEAD_FROM
        is_last = max(self._open, default=0) <= claim.batch
        if is_full and is_last and self._most() and self._ahead is None:
            self._ahead = claim_ahead(partial(self._claim, claim.batch))

    def _end_ahead(self) -> None:
        """Wait for the claim on the other thread. Until then that thread alone claims."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            self._note(ahead.result())

    def _claim(self, after: int) -> Claim | None:
        """Claim, but do not look at an empty queue all the time."""
        self._polling.wait()
        claim = None if self._too_few() else self.shards.claim(after, self._most())
        self._polling.note(found=claim is not None)
        return claim

    def _too_few(self) -> bool:
        """Return whether to wait for more messages. With AvailableNow, no more are expected."""
        least = self._reading.min_messages
        may_wait = least > 1 and self._budget is None and self._polling.may_wait()
        return may_wait and self.shards.ready() < least

    def planned(self, claim: Claim) -> dict[str, int]:
        """Return how many messages of a batch each list has; see `Shards.planned`."""
        parts = self.shards.planned(claim)
        self._claim_ahead(claim)
        return parts

    def done(self, batch: int) -> None:
        if batch > self._acked:
            self._ack(batch, 0)
        self.shards.forget(batch)

    def _ack(self, batch: int, keep: float) -> None:
        claimed = sum(claim.rows for claim in self._open.values() if claim.batch <= batch)
        if (acked := self.shards.ack(batch, keep)) < claimed:
            canceled = self._reading.target.kind == "delayQueue"
            _LOG.warning(
                "%s: %d of %d messages up to batch %d were no longer claimed: their lease"
                " (claimTimeoutMs) ended before they were acked, so they are delivered again%s",
                self.shards.source,
                claimed - acked,
                claimed,
                batch,
                ", or they were canceled" if canceled else "",
            )
        self._open = {each: claim for each, claim in self._open.items() if each > batch}
        self._acked = batch

    def report(self) -> Offset:
        now = time.monotonic()
        if self._counted is None or now - self._counted_at >= COUNT_INTERVAL:
            self._counted_at = now
            try:
                self._counted = self._offset(**self.shards.counts())
            except Exception as error:  # a missing count must not end the query
                _LOG.warning("could not count the messages: %s", redact(str(error)))
        return self._counted or self._offset()

    def _offset(self, **counts: int) -> Offset:
        source = self.shards.source
        return offsets.make(source, batch=self._batch, open=len(self._open), **counts)


def claim_ahead(claim: Callable[[], Claim | None]) -> Future[Claim | None]:
    """Claim on a thread of its own; the result is None if no message was ready.

    The thread is a daemon: if the process ends meanwhile, the messages claimed so far are a batch
    for the next driver, as after a death during any claim.
    """
    claimed: Future[Claim | None] = Future()

    def run() -> None:
        try:
            claimed.set_result(claim())
        except BaseException as error:
            claimed.set_exception(error)

    threading.Thread(target=run, name="ackq-claim", daemon=True).start()
    return claimed


#: Maximum seconds between two heartbeats.
MAX_INTERVAL = 60.0
#: Seconds between a failed attempt and the next one.
AFTER_FAILURE = 1.0


class Heartbeat:
    """Calls ``renew`` regularly on a daemon thread."""

    def __init__(self, renew: Callable[[], None], timeout: float) -> None:
        """Start: three heartbeats per ``timeout`` seconds, at least one a minute."""
        self._renew = renew
        self._interval = min(timeout / 3, MAX_INTERVAL)
        self._stopped = threading.Event()
        self._fenced: Fenced | None = None
        threading.Thread(target=self._run, name="ackq-heartbeat", daemon=True).start()

    def check(self) -> None:
        """Raise the error of a heartbeat that must end the query.

        Raises:
            Fenced: another query took over the group.
        """
        if self._fenced is not None:
            raise self._fenced

    def stop(self) -> None:
        """Stop the heartbeat."""
        self._stopped.set()

    def _run(self) -> None:
        pause = self._interval
        while not self._stopped.wait(pause):
            pause = self._interval
            try:
                self._renew()
            except Fenced as error:
                self._fenced = error
                return
            except Exception as error:  # the leases outlive a few missed heartbeats
                _LOG.warning("could not renew the leases of claims: %s", redact(str(error)))
                pause = min(AFTER_FAILURE, self._interval)
