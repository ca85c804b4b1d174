"""Find the rows of a batch that make the transform, or the sink `ackq`, fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ackq.errors import redact
from ackq.spark.pipeline import sinks
from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.plan import REASON, Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Maximum failing rows per batch. If there are more, the transform itself is considered faulty.
MAX_FAILING = 200
#: Maximum characters of a reason.
MAX_REASON = 200
#: Spark's name of an error, and the last line of a Python traceback.
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_USERS = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_RAISED = re.compile(r"^(?:[a-zA-Z_][\w]*\.)*([A-Z]\w*(?:: .*)?)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A failing row: its values of `Plan.row_columns`, and why it fails."""

    row: tuple[Any, ...]
    reason: str


class TooManyFail(Exception):
    """So many rows fail that the transform must be faulty."""


@dataclass(slots=True)
class Search:
    """How far a search for failing rows is."""

    #: Spark jobs so far, and failing rows found.
    jobs: int = 0
    found: int = 0


class FailingRows:
    """Finds failing rows by bisection, without writing anything.

    Each step costs a small Spark job, so finding one row in 100,000 takes about 20 jobs. A row is
    reported only if it fails alone while Spark otherwise works.
    """

    def __init__(self, config: PipelineConfig, plan: Plan, aborted: Callable[[], bool]) -> None:
        """Prepare.

        Args:
            config: has the sink.
            plan: the transform.
            aborted: returns whether the batch was aborted from outside, so that failures prove
                nothing.
        """
        self._config, self._plan, self._aborted = config, plan, aborted
        #: Read by other threads, to show the progress.
        self.search = Search()

    def find(self, checked: DataFrame) -> list[FailedRow]:
        """Return the rows that fail; an empty list if no row causes the failure.

        Args:
            checked: the batch, persisted, with the reasons of rows that are already rejected.

        Raises:
            TooManyFail: more than `MAX_FAILING` rows fail.
        """
        with _silent(checked.sparkSession):
            return self._find(checked)

    def _find(self, checked: DataFrame) -> list[FailedRow]:
        if self._error(checked.limit(0)) is not None or self._error(checked) is None:
            return []
        *heads, number = self._plan.row_columns
        good = checked.where(F.col(REASON).isNull())
        rows: list[FailedRow] = []
        for *values, first, last in (
            good.groupBy(*heads).agg(F.min(number), F.max(number)).collect()
        ):
            part = good
            for column, value in zip(heads, values, strict=True):
                part = part.where(F.col(column) == value)
            for each in self._bisect(part, tuple(values), first, last):
                rows.append(each)
                self.search.found = len(rows)
                if len(rows) > MAX_FAILING:
                    raise TooManyFail
        return rows

    def _bisect(
        self, part: DataFrame, heads: tuple[Any, ...], first: int, last: int
    ) -> Iterator[FailedRow]:
        number = F.col(self._plan.row_columns[-1])
        error = self._error(part.where(number.between(first, last)))
        if error is None:
            return
        if first == last:
            self._require_health(part)
            yield FailedRow((*heads, first), _reason(error))
            return
        middle = (first + last) // 2
        yield from self._bisect(part, heads, first, middle)
        yield from self._bisect(part, heads, middle + 1, last)

    def _error(self, checked: DataFrame) -> Exception | None:
        self.search.jobs += 1
        try:
            for sink, rows in self._plan.outputs(checked):
                sinks.attempt(sink, rows)
        except Exception as error:
            if self._aborted():
                raise
            return error
        return None

    def _require_health(self, checked: DataFrame) -> None:
        """Raise Spark's error if it can no longer run anything at all."""
        checked.sparkSession.range(1).write.format("noop").mode("overwrite").save()


def without(plan: Plan, checked: DataFrame, failed: list[FailedRow]) -> DataFrame:
    """Return a batch without the rows that failed."""
    origin, *_, number = plan.row_columns
    for name in {each.row[0] for each in failed}:
        numbers = [each.row[-1] for each in failed if each.row[0] == name]
        checked = checked.where(~((F.col(origin) == name) & F.col(number).isin(numbers)))
    return checked


@contextmanager
def _silent(session: SparkSession) -> Iterator[None]:
    """Silence Spark's log, which would print a stack trace for each failing attempt."""
    jvm: Any = session._jvm
    before = str(jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel())
    session.sparkContext.setLogLevel("OFF")
    try:
        yield
    finally:
        session.sparkContext.setLogLevel(before)


def _reason(error: Exception) -> str:
    """Return why a row fails, in words that are the same for all rows with the same fault."""
    text = redact(str(error))
    if "Traceback" in text and (raised := _RAISED.findall(text)):
        cause = str(raised[-1])
    elif by_user := _USERS.search(text):
        cause = by_user[1]
    elif conditions := _CONDITION.findall(text):
        cause = conditions[0]
    else:
        cause = f"{type(error).__name__}: {text.strip().partition(chr(10))[0]}"
    return f"transform: {cause}"[:MAX_REASON]
