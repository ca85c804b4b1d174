"""Process each micro-batch: write rejected rows to the dead letters, then the rest to the sink."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from ackq.queue.row_dead_letters import RejectedRow
from ackq.queue.row_dead_letters_client import RowDeadLetters
from ackq.spark.options import Reading
from ackq.spark.pipeline import sinks
from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.failing import FailedRow, FailingRows, Search, TooManyFail
from ackq.spark.pipeline.plan import REASON, Plan
from ackq.spark.retry import retry
from ackq.spark.shards import claims_of
from ackq.spark.topic_reader import bodies_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows that are written to the dead letters of a queue in one call.
_ROWS_PER_CALL = 500


class Stopping(Exception):
    """The pipeline is stopping, so the batch is left to the next run."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One micro-batch that was written."""

    number: int
    #: Number of messages read, and how many of them were rejected.
    rows: int
    rejected: int
    #: Rejected messages by reason.
    reasons: Counter[str] = field(default_factory=Counter)
    #: Duration in seconds.
    seconds: float = 0.0


class MicroBatchHandler:
    """The callback for each micro-batch. Spark may call it again with the same batch.

    Rejected rows are written first. So if the sink has a batch, its rejected rows are already dead
    letters, and after a replay every row is in at least one of them.
    """

    def __init__(
        self, config: PipelineConfig, plan: Plan, done: Callable[[BatchResult], None]
    ) -> None:
        self._config = config
        self._plan = plan
        self._done = done
        self._query_id = ""
        self._started = Event()
        self._rejects: dict[str, RowDeadLetters] = {}
        self._reading = Reading.of(config.source.all_options())
        #: Set this to stop before the next batch.
        self.stopping = False
        #: Set this before the current batch is aborted from outside.
        self.aborted = False
        #: The current batch, or the last one; -1 before the first.
        self.number = -1
        #: Whether a batch is running.
        self.busy = False
        #: The search for failing rows that is going on; None: none is.
        self.search: Search | None = None
        #: The error that ended the last batch.
        self.error: BaseException | None = None

    def start(self, query_id: str) -> None:
        """Allow batches to run, now that the id of the query is known."""
        self._query_id = query_id
        self._started.set()

    def close(self) -> None:
        """Close the connections."""
        for each in self._rejects.values():
            each.close()
        self._rejects.clear()

    def __call__(self, checked: DataFrame, number: int) -> None:
        """Write the micro-batch ``number``."""
        self._started.wait()
        self.number, self.busy = number, True
        try:
            if self.stopping:
                raise Stopping
            self._done(self._write(checked, number))
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.busy = False

    def _write(self, checked: DataFrame, number: int) -> BatchResult:
        began = time.monotonic()
        # The sink and the dead letters must see the same rows.
        checked = checked.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            rows, rejected = _counts(checked)
            reasons = self._reject(checked, number) if rejected else Counter[str]()
            if rows > rejected:
                reasons += self._write_good(checked, number)
        finally:
            checked.unpersist()
        return BatchResult(number, rows, reasons.total(), reasons, time.monotonic() - began)

    def _write_good(self, checked: DataFrame, number: int) -> Counter[str]:
        """Write the rows that were not rejected; return the reasons of rows that fail now."""

        def write(rows: DataFrame) -> None:
            sinks.write(self._config.sink, self._plan.transformed(rows), self._query_id, number)

        try:
            write(checked)
        except Exception as error:
            failing = FailingRows(self._config, self._plan, lambda: self.aborted)
            self.search = failing.search
            try:
                failed = [] if self.aborted else failing.find(checked)
            except TooManyFail:
                raise error from None
            finally:
                self.search = None
            if not failed:
                raise
            self._reject_failed(failed, number)
            write(failing.without(checked, failed))
            return Counter(each.reason for each in failed)
        return Counter()

    def _reject_failed(self, failed: list[FailedRow], number: int) -> None:
        gathered: dict[str, list[RejectedRow]] = {}
        for each in failed:
            row = RejectedRow(":".join(map(str, each.row)), self._body(each), each.reason)
            gathered.setdefault(self._config.rejects or each.row[0], []).append(row)
        for queue, rows in gathered.items():
            self._write_rejects(queue, number, rows)

    def _body(self, failed: FailedRow) -> bytes:
        """Read the body from Redis again: batches keep the bodies of rejected rows only."""
        reading = self._reading
        origin, *batch, number = failed.row
        if reading.target.kind == "topic":
            stored = bodies_of(reading.connection, origin)
            (found,) = retry(lambda: stored.read(number, 1), reading.retry_timeout)
            return found or b""
        claims = claims_of(reading, origin)
        (body,) = retry(lambda: claims.read(batch[0], number, 1), reading.retry_timeout)
        return body

    def _reject(self, checked: DataFrame, number: int) -> Counter[str]:
        reasons: Counter[str] = Counter()
        gathered: dict[str, list[RejectedRow]] = {}
        # Keep one partition in memory at a time.
        for origin, row, body, reason in self._plan.rejected(checked).toLocalIterator():
            reasons[reason] += 1
            queue = self._config.rejects or origin
            rows = gathered.setdefault(queue, [])
            rows.append(RejectedRow(row, bytes(body), reason))
            if len(rows) == _ROWS_PER_CALL:
                self._write_rejects(queue, number, gathered.pop(queue))
        for queue, rows in gathered.items():
            self._write_rejects(queue, number, rows)
        return reasons

    def _write_rejects(self, queue: str, number: int, rows: list[RejectedRow]) -> None:
        if queue not in self._rejects:
            client = self._reading.connection.client()
            self._rejects[queue] = RowDeadLetters(client, queue, self._query_id)
        writer = self._rejects[queue]
        retry(lambda: writer.reject(str(number), rows), self._reading.retry_timeout)


def _counts(checked: DataFrame) -> tuple[int, int]:
    counted = checked.agg(F.count(F.lit(1)), F.count(REASON)).collect()[0]
    return counted[0], counted[1]
