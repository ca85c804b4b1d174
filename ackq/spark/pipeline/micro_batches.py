"""Process each micro-batch: write rejected rows to the dead letters, then the rest to the sink."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from ackq.spark.options import Reading
from ackq.spark.pipeline import sinks
from ackq.spark.pipeline.callback import BatchCallback
from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.failed_rows import FailedRow, FailingRows, Search, TooManyFail
from ackq.spark.pipeline.plan import REASON, Plan
from ackq.spark.pipeline.quality import Quality
from ackq.spark.pipeline.rejects import Rejects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField


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

    Rejected rows are written first. So if the sink has a batch, its rejected rows are already dead
    letters, and after a replay every row is in at least one of them.
    """

    def __init__(
        self,
        config: PipelineConfig,
        plan: Plan,
        reading: Reading,
        done: Callable[[BatchResult], None],
    ) -> None:
        super().__init__()
        self._config = config
        self._plan = plan
        self._done = done
        self._quality = Quality(config.rejects.stop_above)
        self._reading = reading
        #: The search for failing rows that is going on; None: none is.
        self.search: Search | None = None

    def _write(self, checked: DataFrame, number: int) -> None:
        self._done(self._result(checked, number))

    def _result(self, checked: DataFrame, number: int) -> BatchResult:
        began = time.monotonic()
        # The sink and the dead letters must see the same rows.
        checked = checked.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            rows, rejected = _counts(checked)
            self._quality.check(rows, rejected)
            reasons = self._reject(checked, number) if rejected else Counter[str]()
            if rows > rejected:
                reasons += self._write_good(checked, number)
        finally:
            checked.unpersist()
        return BatchResult(number, rows, reasons.total(), reasons, time.monotonic() - began)

    def _write_good(self, checked: DataFrame, number: int) -> Counter[str]:
        """Write the rows that were not rejected; return the reasons of rows that fail now."""

        def write(rows: DataFrame) -> None:
            for sink, output in self._plan.outputs(rows):
                sinks.write(sink, output, self._query_id, number)

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
            reasons = self._reject_failed(failed, number)
            write(failing.without(checked, failed))
            return reasons
        return Counter()

    def _reject(self, checked: DataFrame, number: int) -> Counter[str]:
        """Let the executors write the rejected rows; return their number by reason."""
        rejects = self._rejects(number, self._plan.parsed_columns())
        written = self._plan.rejected(checked).rdd.mapPartitions(rejects.write_partition)
        return sum(written.collect(), Counter[str]())

    def _reject_failed(self, failed: list[FailedRow], number: int) -> Counter[str]:
        return self._rejects(number).write((*each.row, each.reason) for each in failed)

    def _rejects(self, number: int, columns: tuple[StructField, ...] = ()) -> Rejects:
        """Begin to write rejected rows of a batch; again, go on."""
        rejects = Rejects(
            self._reading, self._config.rejects.queue, self._query_id, number, columns
        )
        rejects.begin()
        return rejects


def _counts(checked: DataFrame) -> tuple[int, int]:
    counted = checked.agg(F.count(F.lit(1)), F.count(REASON)).collect()[0]
    return counted[0], counted[1]
