"""Process each micro-batch: write rejected rows to the dead letters, and the rest to the sink."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.sql import Observation
from pyspark.sql import functions as F

from ackq.spark.checkpoint import text_of
from ackq.spark.options import Reading
from ackq.spark.pipeline import sinks
from ackq.spark.pipeline.checkpoint_log import OFFSETS, end_of
from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.failed_rows import (
    FailedRow,
    FailingRows,
    Search,
    TooManyFail,
    without,
)
from ackq.spark.pipeline.plan import REASON, Plan
from ackq.spark.pipeline.query import BatchCallback
from ackq.spark.pipeline.rejects import Rejects
from ackq.spark.shards import Batch, Shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

#: Fewer messages prove nothing.
MIN_MESSAGES = 100


class TooManyRejected(Exception):
    """More messages were rejected than the configuration allows."""


class Quality:
    """Compares the share of rejected messages with its limit.

    The share is that of the current batch and, if it has fewer than `MIN_MESSAGES`, of the batches
    of this run before it.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        #: Messages and rejected messages of recent batches, at least `MIN_MESSAGES` if there are.
        self._recent: deque[tuple[int, int]] = deque()

    def check(self, rows: int, rejected: int) -> None:
        """Count a batch that is not written yet.

        Raises:
            TooManyRejected: the share is above the limit.
        """
        if self._limit is None:
            return
        self._recent.append((rows, rejected))
        while sum(rows for rows, _ in self._recent) - self._recent[0][0] >= MIN_MESSAGES:
            self._recent.popleft()
        total, bad = (sum(counts) for counts in zip(*self._recent, strict=True))
        if total >= MIN_MESSAGES and bad > self._limit * total:
            raise TooManyRejected(
                f"{bad:,} of the last {total:,} messages are rejected, {bad / total:.1%}, and"
                f" [rejects] stop_above is {self._limit:.1%}. No row of the batch was written."
                " Correct the schema and the checks, or raise stop_above"
            )


#: Milliseconds that Spark's reports of a finished job may take to arrive.
_PATIENCE_MS = 10_000


class CountedRows:
    """Rows that Spark counts as the first action reads them.

    The action may read fewer rows than there are: a LIMIT ends early, and Spark leaves out whole
    parts of a query that cannot change its result. So compare the number with a known one.
    """

    def __init__(self, checked: DataFrame) -> None:
        self._observation: Any = Observation()
        self.rows = checked.observe(
            self._observation,
            F.count(F.lit(1)).alias("rows"),
            F.count(REASON).alias("rejected"),
        )

    def counts(self) -> tuple[int, int] | None:
        """Return how many rows were read and how many of them are rejected; None: not counted."""
        context: Any = self.rows.sparkSession.sparkContext
        try:
            context._jsc.sc().listenerBus().waitUntilEmpty(_PATIENCE_MS)
            # Otherwise `get` would wait for ever.
            if not self._observation._jo.future().isCompleted():
                return None
            observed = self._observation.get
        except Py4JJavaError:  # Spark is too busy to report, or the action failed
            return None
        return observed["rows"], observed["rejected"]


class Unsteady(Exception):
    """Rows of a batch were rejected at first, and accepted when they were read again."""


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


class MicroBatchHandler(BatchCallback):
    """The callback for each micro-batch.

    If a sink has a batch, its rejected rows are already dead letters. So after a replay every row
    is in at least one of them, even if the configuration has changed.

    A sink that would take the batch again, or that has it only when it is published, can
    be written first. Then the rows are counted meanwhile, and a second job reads them only if some
    are rejected. Otherwise the batch is kept in Spark, and rejected rows are written first.
    """

    def __init__(
        self,
        config: PipelineConfig,
        plan: Plan,
        reading: Reading,
        claims: Shards,
        done: Callable[[BatchResult], None],
    ) -> None:
        """Prepare.

        Args:
            config: has the sinks.
            plan: what happens to the rows.
            reading: the source.
            claims: those of this run.
            done: called with each batch that was written.
        """
        super().__init__()
        self._config = config
        self._plan = plan
        self._claims, self._done = claims, done
        self._is_read_once = _is_read_once(config)
        self._quality = Quality(config.rejects.stop_above)
        self._reading = reading
        #: The search for failing rows that is going on; None: none is.
        self.search: Search | None = None

    def _write(self, checked: DataFrame, number: int) -> None:
        began = time.monotonic()
        path = f"{self._config.checkpoint}/{OFFSETS}/{number}"
        batch = self._claims.batch(number, end_of(text_of(checked.sparkSession, path), path))
        write = self._count_meanwhile if self._is_read_once else self._count_first
        try:
            rows, reasons = write(checked, batch)
        except Exception as error:
            # A run that was replaced may fail in any way: the other one removes its drafts.
            self._claims.raise_if_fenced(error)
            raise
        seconds = time.monotonic() - began
        self._done(BatchResult(number, rows, reasons.total(), reasons, seconds))

    def _count_first(self, checked: DataFrame, batch: Batch) -> tuple[int, Counter[str]]:
        with _kept(checked):
            rows, rejected = _counts(checked)
            self._quality.check(rows, rejected)
            reasons = self._reject_all(checked, batch, rejected)
            if rows > rejected:
                reasons += self._write_good(checked, checked, batch)
                self._publish(checked, batch)
        return rows, reasons

    def _count_meanwhile(self, checked: DataFrame, batch: Batch) -> tuple[int, Counter[str]]:
        if not batch.rows:
            return 0, Counter()
        counted = CountedRows(checked)
        reasons = self._write_good(counted.rows, checked, batch)
        counts = counted.counts()
        # The sink may have had the batch already, or may not have needed all rows.
        rows, rejected = counts if counts and counts[0] == batch.rows else _counts(checked)
        reasons += self._reject_all(checked, batch, rejected)
        self._publish(checked, batch)
        return rows, reasons

    def _publish(self, checked: DataFrame, batch: Batch) -> None:
        for sink in self._config.sinks:
            sinks.publish(sink, checked.sparkSession, batch)

    def _write_good(self, rows: DataFrame, checked: DataFrame, batch: Batch) -> Counter[str]:
        """Write the rows that were not rejected; return the reasons of rows that fail now.

        Args:
            rows: the batch, as it is written.
            checked: the same, to look for failing rows.
            batch: the batch.
        """

        def write(batch_rows: DataFrame) -> None:
            for sink, output in self._plan.outputs(batch_rows):
                self.writing = sink.section
                sinks.write(sink, output, batch)
                self.writing = ""

        try:
            write(rows)
        except Exception as error:
            with _kept(checked):
                failed = self._failing(checked, error)
                if not failed:
                    raise
                reasons = self._reject_failed(failed, batch)
                write(without(self._plan, checked, failed))
            return reasons
        return Counter()

    def _failing(self, checked: DataFrame, error: Exception) -> list[FailedRow]:
        """Return the rows that made a batch fail; none: another cause.

        Raises:
            Exception: ``error`` itself, if too many rows fail.
        """
        failing = FailingRows(self._config, self._plan, lambda: self.aborted)
        self.search = failing.search
        try:
            return [] if self.aborted else failing.find(checked)
        except TooManyFail:
            raise error from None
        finally:
            self.search = None

    def _reject_all(self, checked: DataFrame, batch: Batch, rejected: int) -> Counter[str]:
        """Write the rejected rows, if there are any; return their number by reason.

        Raises:
            Unsteady: fewer rows are rejected now than when they were counted, so the sink may lack
                the others.
        """
        if not rejected:
            return Counter()
        now, reasons = self._reject(checked, batch)
        if now < rejected:
            raise Unsteady(
                f"{rejected:,} messages were rejected, but only {now:,} when they were read again:"
                " their schema was registered in the meantime, or a check has changing results."
                " Run the pipeline again"
            )
        return reasons

    def _reject(self, checked: DataFrame, batch: Batch) -> tuple[int, Counter[str]]:
        """Let the executors write the rejected rows; return how many there are, also by reason."""
        rejects = self._rejects(batch, self._plan.parsed_columns())
        tasks = self._plan.rejected(checked).rdd.mapPartitions(rejects.write_partition).collect()
        return sum(rows for rows, _ in tasks), sum((each for _, each in tasks), Counter[str]())

    def _reject_failed(self, failed: list[FailedRow], batch: Batch) -> Counter[str]:
        return self._rejects(batch).write((*each.row, each.reason) for each in failed)

    def _rejects(self, batch: Batch, columns: tuple[StructField, ...] = ()) -> Rejects:
        """Begin to write rejected rows of a batch; again, go on."""
        queue = self._config.rejects.queue
        rejects = Rejects(self._reading, queue, batch.writer, batch.name, columns)
        self._claims.check_group()
        rejects.begin()
        return rejects


def _is_read_once(config: PipelineConfig) -> bool:
    """Return whether one job can read all rows of a batch, before the rejected ones are known."""
    (sink, *more) = config.sinks
    has_limit = config.rejects.stop_above is not None
    return sinks.may_be_first(sink) and not (has_limit or more or config.transform.callable)


@contextmanager
def _kept(checked: DataFrame) -> Iterator[None]:
    """Keep the rows of a batch in Spark, so that several jobs do not read them again."""
    checked.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield
    finally:
        checked.unpersist()


def _counts(checked: DataFrame) -> tuple[int, int]:
    counted = checked.agg(F.count(F.lit(1)), F.count(REASON)).collect()[0]
    return counted[0], counted[1]
