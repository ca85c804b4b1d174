"""Finds the rows of a batch at which its transform, or the making of messages from it, fails."""

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

#: Rows of one batch that may fail: where it is more, the transform is at fault, and not the rows.
MOST = 200
#: Characters of a reason.
LONGEST = 200
#: How Spark names what went wrong, and how the traceback of a function ends.
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_RAISED = re.compile(r"^(?:[a-zA-Z_][\w]*\.)*([A-Z]\w*(?:: .*)?)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Failed:
    """One row: the values of `Plan.place`, and why it fails."""

    place: tuple[Any, ...]
    reason: str


class TooManyFail(Exception):
    """More rows fail than can be the fault of rows."""


class Failing:
    """Looks for such rows by halves, without writing anything.

    A half costs a small job of Spark, so that one row in 100,000 takes about 20 of them. A row is
    found guilty only if it fails alone, while Spark works otherwise.
    """

    def __init__(self, config: PipelineConfig, plan: Plan, ended: Callable[[], bool]) -> None:
        """Prepare.

        Args:
            config: says what the sink takes.
            plan: what is done with the rows.
            ended: whether the batch was ended from outside: then what fails proves nothing.
        """
        self._config, self._plan, self._ended = config, plan, ended

    def find(self, checked: DataFrame) -> list[Failed]:
        """Return the rows that fail; none where what fails is something else.

        Args:
            judged: the batch, persisted, with the reasons of what is rejected already.

        Raises:
            TooManyFail: more than `MOST`.
        """
        with _silent(checked.sparkSession):
            return self._found(checked)

    def _found(self, checked: DataFrame) -> list[Failed]:
        if self._error(checked.limit(0)) is not None or self._error(checked) is None:
            return []
        *heads, number = self._plan.place
        good = checked.where(F.col(REASON).isNull())
        found: list[Failed] = []
        for *values, first, last in (
            good.groupBy(*heads).agg(F.min(number), F.max(number)).collect()
        ):
            part = good
            for column, value in zip(heads, values, strict=True):
                part = part.where(F.col(column) == value)
            for each in self._halved(part, tuple(values), first, last):
                found.append(each)
                if len(found) > MOST:
                    raise TooManyFail
        return found

    def without(self, checked: DataFrame, failed: list[Failed]) -> DataFrame:
        """Return the batch without the rows that failed."""
        origin, *_, number = self._plan.place
        for name in {each.place[0] for each in failed}:
            numbers = [each.place[-1] for each in failed if each.place[0] == name]
            checked = checked.where(~((F.col(origin) == name) & F.col(number).isin(numbers)))
        return checked

    def _halved(
        self, part: DataFrame, heads: tuple[Any, ...], first: int, last: int
    ) -> Iterator[Failed]:
        number = F.col(self._plan.place[-1])
        error = self._error(part.where(number.between(first, last)))
        if error is None:
            return
        if first == last:
            self._require_health(part)
            yield Failed((*heads, first), _reason(error))
            return
        middle = (first + last) // 2
        yield from self._halved(part, heads, first, middle)
        yield from self._halved(part, heads, middle + 1, last)

    def _error(self, checked: DataFrame) -> Exception | None:
        try:
            sinks.attempt(self._config.sink, self._plan.transformed(checked))
        except Exception as error:
            if self._ended():
                raise
            return error
        return None

    def _require_health(self, checked: DataFrame) -> None:
        """Raise what Spark raises if it runs nothing at all any more."""
        checked.sparkSession.range(1).write.format("noop").mode("overwrite").save()


@contextmanager
def _silent(session: SparkSession) -> Iterator[None]:
    """Let Spark log nothing: it would write a page at each attempt that fails."""
    jvm: Any = session._jvm
    before = str(jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel())
    session.sparkContext.setLogLevel("OFF")
    try:
        yield
    finally:
        session.sparkContext.setLogLevel(before)


def _reason(error: Exception) -> str:
    """Return what went wrong with a row, so that rows of one fault have one reason."""
    text = redact(str(error))
    if "Traceback" in text and (raised := _RAISED.findall(text)):
        told = str(raised[-1])
    elif conditions := _CONDITION.findall(text):
        told = conditions[0]
    else:
        told = f"{type(error).__name__}: {text.strip().partition(chr(10))[0]}"
    return f"transform: {told}"[:LONGEST]
