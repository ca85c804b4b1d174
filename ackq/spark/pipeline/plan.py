"""Plan what happens to the rows of a batch: which are rejected and why, and the transform."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import translate
from typing import TYPE_CHECKING, Any, NoReturn, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType

from ackq.errors import ConfigurationError
from ackq.process.plan import import_object
from ackq.spark.checkpoint import file_system
from ackq.spark.columns import columns_of
from ackq.spark.options import Parsing, Reading
from ackq.spark.pipeline.config import PipelineConfig, Sink, Table, Transform
from ackq.spark.pipeline.failure import one_line
from ackq.spark.pipeline.section import nearest, refused
from ackq.spark.pipeline.sinks import SCHEMES, can_publish
from ackq.spark.row_encoder import RowEncoder
from ackq.spark.sink_options import Writing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

#: The view that the SQL of a transform reads.
VIEW = "messages"
#: The view of its result, which the SQL of a sink reads.
ROWS = "rows"
#: Columns that a pipeline adds. The user's columns cannot have these names.
CORRUPT, BODY, REASON = "_corrupt_record", "_body", "_reason"
CORRUPT_OPTION = ("columnNameOfCorruptRecord", CORRUPT)
#: The reason of messages that do not fit the schema.
UNPARSED = "does not parse"
#: Columns that identify a message: its queue or topic, and its position there.
_IN_CLAIM = {"queue": "STRING", "batch": "BIGINT", "position": "BIGINT"}
ROW_COLUMNS = {
    "queue": _IN_CLAIM,
    "delayQueue": _IN_CLAIM,
    "topic": {"topic": "STRING", "offset": "BIGINT"},
}
#: Loggers of PySpark that print a page for an error that is reported here in one line.
_VERBOSE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
#: The columns of messages that are not parsed.
RAW = {"id": "STRING", "value": "STRING"}
_ANSI = "spark.sql.ansi.enabled"
#: Formats that every Spark has.
_BUILT_IN = ("parquet", "orc", "json", "csv", "text", "noop", "console")


class Plan:
    """The steps of a pipeline between its source and its sink."""

    def __init__(self, config: PipelineConfig) -> None:
        """Import the function that the transform names.

        Raises:
            PipelineConfigError: it cannot be imported.
        """
        self._config = config
        self._parsed = config.validation.ddl is not None
        # If messages are not parsed, the user sees these columns, too.
        prefix = "_" if self._parsed else ""
        self._row_columns = {
            f"{prefix}{name}": kind for name, kind in ROW_COLUMNS[config.source.kind].items()
        }
        transform = config.transform.callable
        try:
            self._callable = import_object(transform) if isinstance(transform, str) else transform
        except (ConfigurationError, ImportError) as error:
            self._wrong("transform", "callable", str(error))
        # Messages that are neither parsed nor changed are passed on byte for byte.
        self._passed_on = (
            not self._parsed
            and config.transform == Transform()
            and all(sink.kind == "ackq" and sink.sql is None for sink in config.sinks)
        )
        if self._callable is not None and not callable(self._callable):
            self._wrong("transform", "callable", f"{transform} is not callable")

    @property
    def ddl(self) -> str | None:
        """The user's columns as DDL; None: messages are not parsed."""
        return self._config.validation.ddl

    def parsed_columns(self) -> tuple[StructField, ...]:
        """Return the columns that are parsed from bodies; none if messages are not parsed."""
        if self.ddl is None:
            return ()
        reading = Reading.of(self._config.source.all_options())
        # A data frame of the batch's session would make this session the active one.
        return columns_of(reading, cast("StructType", DataType.fromDDL(self.ddl))).parsed

    @property
    def parsing(self) -> Parsing:
        """How bodies are parsed."""
        return Reading.of(self._config.source.all_options()).parsing

    @property
    def schema(self) -> str | None:
        """The columns to request from the source, as DDL; None: its default columns."""
        if not self._parsed:
            return None
        names_row = ", ".join(f"{name} {kind}" for name, kind in self._row_columns.items())
        return f"{self._config.validation.ddl}, {CORRUPT} STRING, {names_row}"

    @property
    def source_options(self) -> dict[str, str]:
        """The options of the source. Bodies are read only if they are written."""
        metadata = self._parsed or self._passed_on
        return {**self._config.source.all_options(), "includeMetadata": str(metadata).lower()}

    def check(self, spark: SparkSession) -> None:
        """Let Spark check the sink's format, the schema, the checks and the SQL. Reads no rows.

        Raises:
            PipelineConfigError: Spark rejects one of them; the error names the key.
        """
        for name in _VERBOSE:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._find_files(spark, "", "checkpoint", self._config.checkpoint)
        for sink in self._config.sinks:
            if sink.kind != "ackq":
                self._find_format(spark, sink.section, sink.format)
            if sink.format == "jdbc":
                self._find_driver(spark, sink)
            if sink.kind == "files" and sink.path is not None:
                self._find_files(spark, sink.section, "path", sink.path)
                if not can_publish(spark, sink.path):
                    problem = (
                        f"{sink.path} is on a file system that cannot rename a folder in one step,"
                        f" and only if the new name is free: write to one of {', '.join(SCHEMES)},"
                        ' or use format = "delta"'
                    )
                    self._wrong(sink.section, "path", problem)
        for table in self._config.tables:
            self._load(spark, table)
        empty = self._empty(spark)
        if not self._are_valid(empty):
            self._find_invalid(empty)
        self._are_queries(spark)
        if self._callable is not None:
            return  # a function may not expect an empty DataFrame
        if self._config.transform.sql is None and all(map(_writes_all, self._config.sinks)):
            return
        with self._naming("transform", "sql"):
            rows = self.transformed(self.checked(empty))
        for sink in self._config.sinks:
            if sink.stateful is not None:
                output = self.stateful_output(sink, _empty_stream(spark, rows.schema))
            else:
                with self._naming(sink.section, "sql"):
                    output = _output(sink, rows)
            self._check_output(sink, output.schema)

    def _check_output(self, sink: Sink, schema: StructType) -> None:
        known = {column.lower() for column in schema.names}
        for column in sink.partition_by:
            if column.lower() not in known:
                problem = f"the rows to write have no column {column!r}"
                hint = nearest(column, schema.names)
                self._wrong(sink.section, "partition_by", f"{problem}; {hint}")
        if sink.kind == "ackq":
            try:
                RowEncoder(schema, Writing.of(sink.all_options(), stream=False))
            except ConfigurationError as error:
                self._wrong(sink.section, "options", str(error))

    def _are_queries(self, spark: SparkSession) -> None:
        """Refuse statements that change something: Spark would run them with each batch."""
        parser = cast(Any, spark)._jsparkSession.sessionState().sqlParser()
        sections = [("transform", self._config.transform.sql)]
        for section, sql in [*sections, *((each.section, each.sql) for each in self._config.sinks)]:
            if sql is not None:
                with self._naming(section, "sql"):
                    parser.parseQuery(sql)

    def uses_current_time(self, spark: SparkSession) -> bool:
        """Return whether a check depends on the time, which must be the same in a replay."""
        if not self._config.validation.checks:
            return False
        patterns = cast(Any, spark)._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
        conditions = _analyzed(self._conditions(self._empty(spark)))
        return bool(conditions.containsPattern(patterns.CURRENT_LIKE()))

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns that identify a row: first its queue or topic, last its number there."""
        return tuple(self._row_columns)

    def checked(self, batch: DataFrame) -> DataFrame:
        """Return the rows with the reason for their rejection, null if a row is accepted.

        Call it on the stream: there, current_timestamp() is the time of the batch, also in a
        replay. Bodies are left out, so that batches stay small; see `rejected`.
        """
        checked = self.with_reason(batch)
        return checked if self._passed_on else checked.drop(CORRUPT, BODY)

    def with_reason(self, messages: DataFrame) -> DataFrame:
        """Return messages with the reason for their rejection, null if one is accepted."""
        # An expression that cannot be evaluated gives null, which is not true, and no error.
        with _setting(messages.sparkSession, _ANSI, "false"):
            return messages.withColumn(REASON, self._reason())

    def rejected(self, checked: DataFrame) -> DataFrame:
        """Return the rejected rows: the columns that identify them, and the reason."""
        return checked.where(F.col(REASON).isNotNull()).select(*self._row_columns, REASON)

    def transformed(self, checked: DataFrame) -> DataFrame:
        """Return the result of the transform for the rows that were not rejected.

        Raises:
            PipelineConfigError: the callable did not return a DataFrame.
        """
        from pyspark.sql import DataFrame as AnyDataFrame

        ours = {CORRUPT, BODY, REASON, *(self._row_columns if self._parsed else ())}
        good = checked.where(F.col(REASON).isNull())
        good = good.drop(*(ours - {BODY} if self._passed_on else ours))
        if self._config.transform.sql is not None:
            good.createOrReplaceTempView(VIEW)
            return good.sparkSession.sql(self._config.transform.sql)
        if self._callable is None:
            return good
        result = self._callable(good)
        if not isinstance(result, AnyDataFrame):
            problem = f"must return a DataFrame, but returned {type(result).__name__}"
            self._wrong("transform", "callable", problem)
        return result

    def outputs(self, checked: DataFrame) -> Iterator[tuple[Sink, DataFrame]]:
        """Yield each sink with its rows: for a stateful one, those that its query will read.

        Raises:
            PipelineConfigError: as in `transformed`.
        """
        rows = self.transformed(checked)
        for sink in self._config.sinks:
            if sink.stateful is not None:
                yield sink, rows
            else:
                yield sink, self._without_loop(sink, _output(sink, rows))

    def rows_schema(self, spark: SparkSession) -> StructType:
        """Return the columns of the result of the transform, whose function gets no rows here."""
        return self.transformed(self.checked(self._empty(spark))).schema

    def stateful_output(self, sink: Sink, rows: DataFrame) -> DataFrame:
        """Return the result of a stateful sink's query as a stream.

        Args:
            sink: the sink.
            rows: the results of the transform, as a stream.

        Raises:
            PipelineConfigError: Spark rejects the watermark, the query or the output mode.
        """
        assert sink.stateful is not None
        if sink.stateful.watermark is not None:
            with self._naming(f"{sink.section}.watermark", "column"):
                rows = rows.withWatermark(*sink.stateful.watermark)
        with self._naming(sink.section, "sql"):
            results = _output(sink, rows)
        with self._naming(sink.section, "output_mode"):
            _check_mode(results, sink.stateful.output_mode)
        return results

    def _without_loop(self, sink: Sink, rows: DataFrame) -> DataFrame:
        """Let a row fail whose target is the source: the pipeline would read it again, forever."""
        source = self._config.source
        option, column = sink.target or ("", "")
        if option != f"{source.kind}Column" or not sink.is_on_server_of(source):
            return rows
        target = F.col(f"`{column}`")
        problem = F.concat(F.lit(f"{column} names the source "), target)
        # fnmatch's expressions are for `re.match`, Spark's are found anywhere.
        is_loop = target.rlike("|".join(f"^{translate(each)}" for each in source.names))
        return rows.withColumn(column, F.when(is_loop, F.raise_error(problem)).otherwise(target))

    def _load(self, spark: SparkSession, table: Table) -> None:
        """Make the view of a table, which the session of the query inherits."""
        section = f"tables.{table.name}"
        self._find_format(spark, section, table.format)
        reader = spark.read.format(table.format).options(**table.options)
        with self._naming(section, "ddl"):
            reader = reader if table.ddl is None else reader.schema(table.ddl)
        with self._naming(section, "path"):
            reader.load(table.path).createOrReplaceTempView(table.name)

    def _find_format(self, spark: SparkSession, section: str, format: str) -> None:
        if format in _BUILT_IN:
            return
        session = cast(Any, spark)
        # Only the JVM knows all formats: its own, those of packages, and those of Python.
        sources = session._jvm.org.apache.spark.sql.execution.datasources.DataSource
        try:
            sources.lookupDataSource(format, session._jsparkSession.sessionState().conf())
        except (PySparkException, Py4JJavaError):
            problem = (
                f"Spark does not find the format {format!r}: correct the name, or add its"
                " package to [spark], as spark.jars.packages"
            )
            self._wrong(section, "format", problem)

    def _find_driver(self, spark: SparkSession, sink: Sink) -> None:
        """Let Spark find the driver of a database, as it does when it writes."""
        java = cast(Any, spark)._jvm
        options = java.java.util.HashMap(sink.all_options())
        jdbc = java.org.apache.spark.sql.execution.datasources.jdbc
        try:
            jdbc.JDBCOptions(java.PythonUtils.toScalaMap(options))
        except Py4JJavaError as error:
            problem = (
                f"{one_line(error)}. Correct the options, or add the driver of the database to"
                " [spark], as spark.jars.packages"
            )
            self._wrong(sink.section, "options", problem)

    def _find_files(self, spark: SparkSession, section: str, key: str, path: str) -> None:
        """Let Spark look for the file system of a path, which may need a package."""
        try:
            file_system(spark, path)
        except Py4JJavaError as error:
            problem = (
                f"Spark cannot use {path}: {one_line(error)}. Correct it, or add the package of its"
                " file system to [spark], as spark.jars.packages"
            )
            self._wrong(section, key, problem)

    def _conditions(self, empty: DataFrame) -> DataFrame:
        """Return a column for each condition of the schema and each check."""
        validation = self._config.validation
        # Names of columns may contain what an alias would not.
        columns = [F.col(name).isNull() for name in validation.not_null]
        # Beside a column, Spark rejects aggregates.
        return empty.select(self.row_columns[0], *columns, *map(F.expr, validation.checks.values()))

    def _are_valid(self, empty: DataFrame) -> bool:
        """Return whether Spark accepts all conditions and checks, analyzing them at once."""
        try:
            conditions = self._conditions(empty)
        except PySparkException:
            return False
        types = {each.dataType for each in conditions.schema.fields[1:]}
        return types <= {BooleanType()} and _deterministic(conditions)

    def _find_invalid(self, empty: DataFrame) -> None:
        """Raise the error of the first condition or check that Spark rejects."""
        for column in self._config.validation.not_null:
            with self._naming("schema", "not_null"):
                empty.select(column)
        for name, expression in self._config.validation.checks.items():
            with self._naming("checks", name):
                if not _deterministic(empty.where(expression)):
                    problem = "depends on chance, so a replay could give another result"
                    self._wrong("checks", name, problem)

    def _empty(self, spark: SparkSession) -> DataFrame:
        theirs = self._config.validation.ddl
        with self._naming("schema", "ddl"):
            names = cast("StructType", DataType.fromDDL(theirs)).names if theirs else []
        for name, count in Counter(name.lower() for name in names).items():
            if count > 1:
                same = " and ".join(each for each in names if each.lower() == name)
                problem = f"{same} are the same name for Spark, which ignores case: rename one"
                self._wrong("schema", "ddl", problem)
        ours = {CORRUPT, BODY, REASON, *self._row_columns}
        if reserved := sorted({name.lower() for name in names} & ours):
            self._wrong("schema", "ddl", f"{reserved[0]} is reserved: choose another name")
        try:
            self.parsed_columns()
        except ConfigurationError as error:
            self._wrong("schema", "ddl", str(error))
        columns = {**RAW, **self._row_columns, BODY: "BINARY"}
        raw = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        schema = cast("StructType", DataType.fromDDL(self.schema or raw))
        return spark.range(0).select(*_nulls(schema))

    def _reason(self) -> Column:
        """Return the first reason for which a row is rejected; null if it is accepted."""
        validation = self._config.validation
        reasons = [
            _named("null", {name: F.col(name).isNull() for name in validation.not_null}),
            _named(
                "check",
                {
                    name: ~F.coalesce(F.expr(expression), F.lit(False))
                    for name, expression in validation.checks.items()
                },
            ),
        ]
        if self._parsed:
            reasons.insert(0, F.when(F.col(CORRUPT).isNotNull(), F.lit(UNPARSED)))
        return F.coalesce(*reasons)

    @contextmanager
    def _naming(self, section: str, key: str) -> Iterator[None]:
        try:
            yield
        except PySparkException as error:
            # The message is in the first line; Spark's plans and stack traces follow.
            self._wrong(section, key, str(error).strip().partition("\n")[0].rstrip(";"))

    def _wrong(self, section: str, key: str, problem: str) -> NoReturn:
        raise refused(self._config.where, section, key, problem)


def _named(what: str, failed: Mapping[str, Column]) -> Column:
    """Return ``what: a, b`` with the names of the conditions that are true; null if none is."""
    if not failed:
        return F.lit(None).cast("string")
    names = F.concat_ws(", ", *(F.when(each, F.lit(name)) for name, each in failed.items()))
    return F.when(names != "", F.concat(F.lit(f"{what}: "), names))


def _output(sink: Sink, rows: DataFrame) -> DataFrame:
    if sink.sql is None:
        return rows
    rows.createOrReplaceTempView(ROWS)
    return rows.sparkSession.sql(sink.sql)


def _empty_stream(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a stream with some columns, which is analyzed but never started."""
    return spark.readStream.format("rate").load().select(*_nulls(schema))


def _nulls(schema: StructType) -> Iterator[Column]:
    return (F.lit(None).cast(each.dataType).alias(each.name) for each in schema)


def _writes_all(sink: Sink) -> bool:
    """Return whether a sink writes the rows as they are, whatever columns they have."""
    named = sink.kind == "ackq" or sink.partition_by or sink.stateful is not None
    return sink.sql is None and not named


def _check_mode(results: DataFrame, mode: str) -> None:
    """Let Spark check whether a query has an output mode, as it does when the query starts."""
    frame = cast(Any, results)
    sql = frame.sparkSession._jvm.org.apache.spark.sql
    modes = sql.streaming.OutputMode
    sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
        frame._jdf.queryExecution().analyzed(),
        modes.Update() if mode == "update" else modes.Append(),
    )


def _deterministic(rows: DataFrame) -> bool:
    return bool(_analyzed(rows).deterministic())


def _analyzed(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()


@contextmanager
def _setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    before = str(session.conf.get(name))
    session.conf.set(name, value)
    try:
        yield
    finally:
        session.conf.set(name, before)
