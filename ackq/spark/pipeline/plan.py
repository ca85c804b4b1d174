"""What is done with the rows of a batch: which are rejected and why, and what becomes of others."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from ackq.errors import ConfigurationError
from ackq.spark.pipeline.config import PipelineConfig, Transform
from ackq.spark.pipeline.section import nearest, refused
from ackq.worker.plan import found

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: The view that the SQL of a transform reads.
VIEW = "messages"
#: Columns beside those of the user; theirs cannot be called so.
CORRUPT, BODY, REASON = "_corrupt_record", "_body", "_reason"
CORRUPT_OPTION = ("columnNameOfCorruptRecord", CORRUPT)
#: What the source tells of a message besides its content: where it was.
PLACES = {"queue": {"queue": "STRING", "batch": "BIGINT", "position": "BIGINT"},
          "topic": {"topic": "STRING", "offset": "BIGINT"}}  # fmt: skip
#: Loggers of PySpark that write a page for what is an error of ours, in one line.
_VERBOSE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
#: The columns of messages that are not parsed.
RAW = {"id": "STRING", "value": "STRING"}
_ANSI = "spark.sql.ansi.enabled"


class Plan:
    """The steps of a pipeline between its source and its sink."""

    def __init__(self, config: PipelineConfig) -> None:
        """Find the function that the transform names.

        Raises:
            PipelineConfigError: it is not there.
        """
        self._config = config
        self._parsed = config.validation.ddl is not None
        # Where messages are not parsed these columns are the user's as well.
        prefix = "_" if self._parsed else ""
        self._place = {f"{prefix}{name}": kind for name, kind in PLACES[config.source.kind].items()}
        transform = config.transform.callable
        try:
            self._callable = found(transform) if isinstance(transform, str) else transform
        except (ConfigurationError, ImportError) as error:
            self._wrong("transform", "callable", str(error))
        # What is neither parsed nor changed is sent on as the very bytes that came.
        self._passed_on = (
            not self._parsed and config.sink.kind == "ackq" and config.transform == Transform()
        )
        if self._callable is not None and not callable(self._callable):
            self._wrong("transform", "callable", f"{transform} cannot be called")

    @property
    def schema(self) -> str | None:
        """The columns to ask the source for, as DDL; None: those that it has by itself."""
        if not self._parsed:
            return None
        place = ", ".join(f"{name} {kind}" for name, kind in self._place.items())
        return f"{self._config.validation.ddl}, {CORRUPT} STRING, {BODY} BINARY, {place}"

    def check(self, spark: SparkSession) -> None:
        """Let Spark find the sink's format, and analyse the schema, the checks and the SQL.

        No row is read for it.

        Raises:
            PipelineConfigError: it refused one of them; names the key.
        """
        for name in _VERBOSE:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._find_format(spark)
        empty = self._empty(spark)
        for column in self._config.validation.not_null:
            with self._naming("schema", "not_null"):
                empty.select(column)
        for name, expression in self._config.validation.checks.items():
            with self._naming("checks", name):
                if not _deterministic(empty.where(expression)):
                    problem = "depends on chance, and a row has to fare the same when replayed"
                    self._wrong("checks", name, problem)
        if self._callable is not None:
            return  # what it does may not be for no rows
        with self._naming("transform", "sql"):
            columns = self.transformed(self.checked(empty)).columns
        known = {column.lower() for column in columns}
        for column in self._config.sink.partition_by:
            if column.lower() not in known:
                problem = f"there is no column {column!r} to write; {nearest(column, columns)}"
                self._wrong("sink", "partition_by", problem)

    @property
    def place(self) -> tuple[str, ...]:
        """The columns that name a row: its queue or topic first, its number there last."""
        return tuple(self._place)

    def checked(self, batch: DataFrame) -> DataFrame:
        """Return the rows with the reason why each is rejected, null where it is not.

        To be called on the stream, not in the batch, since there the time of the clock is that of
        the batch, in a replay too. A body is kept only of what is rejected.
        """
        # What cannot be evaluated is null, and so not true, instead of the end of the batch.
        with _setting(batch.sparkSession, "spark.sql.ansi.enabled", "false"):
            checked = batch.withColumn(REASON, self._reason())
        if self._passed_on:
            return checked
        return checked.withColumn(BODY, F.when(F.col(REASON).isNotNull(), F.col(BODY)))

    def rejected(self, checked: DataFrame) -> DataFrame:
        """Return the rejected rows: the queue or topic, what names the row in it, body, reason."""
        name, *places = (F.col(f"`{each}`") for each in self._place)
        row = F.concat_ws(":", name, *places)
        return checked.where(F.col(REASON).isNotNull()).select(name, row, BODY, REASON)

    def transformed(self, checked: DataFrame) -> DataFrame:
        """Return what the rows that were not rejected become.

        Raises:
            PipelineConfigError: the callable returned something else than a DataFrame.
        """
        from pyspark.sql import DataFrame as AnyDataFrame

        ours = {CORRUPT, BODY, REASON, *(self._place if self._parsed else ())}
        good = checked.where(F.col(REASON).isNull())
        good = good.drop(*(ours - {BODY} if self._passed_on else ours))
        if self._config.transform.sql is not None:
            good.createOrReplaceTempView(VIEW)
            return good.sparkSession.sql(self._config.transform.sql)
        if self._callable is None:
            return good
        result = self._callable(good)
        if not isinstance(result, AnyDataFrame):
            problem = f"returned {type(result).__name__}, and a DataFrame is needed"
            self._wrong("transform", "callable", problem)
        return result

    def _find_format(self, spark: SparkSession) -> None:
        sink, session = self._config.sink, cast(Any, spark)
        if sink.kind == "ackq":
            return
        # The JVM alone knows what its packages bring along, and those of Python as well.
        sources = session._jvm.org.apache.spark.sql.execution.datasources.DataSource
        try:
            sources.lookupDataSource(sink.format, session._jsparkSession.sessionState().conf())
        except (PySparkException, Py4JJavaError):
            problem = (
                f"Spark finds no format {sink.format!r}: correct the name, or name its package in"
                " [spark], as spark.jars.packages"
            )
            self._wrong("sink", "format", problem)

    def _empty(self, spark: SparkSession) -> DataFrame:
        theirs = self._config.validation.ddl
        with self._naming("schema", "ddl"):
            names = spark.createDataFrame([], theirs).columns if theirs else []
        ours = {CORRUPT, BODY, REASON, *self._place}
        if taken := sorted({name.lower() for name in names} & ours):
            self._wrong("schema", "ddl", f"{taken[0]} has a meaning here: choose another name")
        columns = {**RAW, **self._place, BODY: "BINARY"}
        raw = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        return spark.createDataFrame([], self.schema or raw)

    def _reason(self) -> Column:
        """Return why a row is rejected: the first of what is wrong with it, null if nothing is."""
        validation = self._config.validation
        reasons = [
            _named("null", {name: F.col(name).isNull() for name in validation.not_null}),
            _named("check", {name: ~F.coalesce(F.expr(expression), F.lit(False))
                             for name, expression in validation.checks.items()}),
        ]  # fmt: skip
        if self._parsed:
            reasons.insert(0, F.when(F.col(CORRUPT).isNotNull(), F.lit("does not parse")))
        return F.coalesce(*reasons)

    @contextmanager
    def _naming(self, section: str, key: str) -> Iterator[None]:
        try:
            yield
        except PySparkException as error:
            # The first line says it; Spark's plans and traces follow.
            self._wrong(section, key, str(error).strip().partition("\n")[0].rstrip(";"))

    def _wrong(self, section: str, key: str, problem: str) -> NoReturn:
        raise refused(self._config.where, section, key, problem)


def _named(what: str, failed: Mapping[str, Column]) -> Column:
    """Return ``what: a, b`` with the names of those that are true, null if none is."""
    if not failed:
        return F.lit(None).cast("string")
    names = F.concat_ws(", ", *(F.when(each, F.lit(name)) for name, each in failed.items()))
    return F.when(names != "", F.concat(F.lit(f"{what}: "), names))


def _deterministic(rows: DataFrame) -> bool:
    return bool(rows._jdf.queryExecution().analyzed().deterministic())


@contextmanager
def _setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    before = str(session.conf.get(name))
    session.conf.set(name, value)
    try:
        yield
    finally:
        session.conf.set(name, before)
