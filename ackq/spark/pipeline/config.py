"""The configuration of a pipeline, checked before Spark is started."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any, Literal, Self

from ackq.core.names import check_group, check_name
from ackq.errors import ConfigurationError, PipelineConfigError, QueueNameError
from ackq.spark.options import Kind, Reading
from ackq.spark.pipeline.section import MAX_SECONDS, Section, local_path, refused
from ackq.spark.pipeline.spark_settings import spark_settings
from ackq.spark.sink_options import Writing

Transformed = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the messages."""

    kind: Kind
    #: The option of the format that names them: "queue", "queues", "topic" or "delayQueue".
    option: str
    #: The queues, or patterns of their names, or the topic, or the delay queue.
    names: tuple[str, ...]
    #: The group of the claims. Defaults to the pipeline's name; None for a topic.
    group: str | None
    #: Options of the format "ackq", such as ``maxMessagesPerTrigger``. Defaults to none.
    options: Mapping[str, str] = field(default_factory=dict)
    #: The options that describe the format of bodies. Defaults to JSON objects.
    format: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The kind in words."""
        return "delay queue" if self.kind == "delayQueue" else self.kind

    def reads(self, kind: str, name: str) -> bool:
        """Return whether a target is one of the source, or would be if it existed."""
        return kind == self.kind and any(fnmatchcase(name, each) for each in self.names)

    def all_options(self) -> dict[str, str]:
        """Return the options of the format, including those set by other keys."""
        named = {self.option: ",".join(self.names)}
        given = {**self.options, **self.format, **named, "includeMetadata": "true"}
        return given if self.group is None else {**given, "groupId": self.group}


@dataclass(frozen=True, slots=True)
class Validation:
    """The conditions that a valid message meets."""

    #: The columns as DDL, such as ``title STRING, year INT``. None: messages are not parsed.
    ddl: str | None = None
    #: Columns that must not be null. Defaults to none.
    not_null: tuple[str, ...] = ()
    #: Name of each check, and the SQL expression that must be true. Defaults to none.
    checks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Transform:
    """How valid messages are transformed. At most one of the two is set."""

    #: A query over the view ``messages``.
    sql: str | None = None
    #: A function from DataFrame to DataFrame, or its location: ``module:function``.
    callable: Transformed | str | None = None


@dataclass(frozen=True, slots=True)
class Stateful:
    """How the SQL of a sink is applied to all rows over time, instead of to each batch."""

    #: Spark's output mode: each result once, when it is final, or the results that changed.
    output_mode: Literal["append", "update"]
    #: The folder of its rows and its state, within the checkpoint.
    folder: str
    #: The column with the time of a row, and by how much rows may be late. Defaults to none.
    watermark: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink of the rows."""

    #: How rows are written: "files", "ackq" or "other".
    kind: Literal["files", "ackq", "other"]
    #: Spark's name of the format.
    format: str
    #: The folder of files, the path for another format, or None.
    path: str | None = None
    #: For "ackq": the option that names the target, and the target.
    target: tuple[str, str] | None = None
    #: Columns whose values become folders. Defaults to none.
    partition_by: tuple[str, ...] = ()
    #: Options of the format. Defaults to none.
    options: Mapping[str, str] = field(default_factory=dict)
    #: The name in ``[sinks.NAME]``; empty for the only sink, ``[sink]``.
    name: str = ""
    #: A query over the view ``rows``, the result of the transform. Defaults to all rows.
    sql: str | None = None
    #: Set if the query covers all rows over time. Defaults to one batch.
    stateful: Stateful | None = None

    @property
    def section(self) -> str:
        """The section of the configuration."""
        return f"sinks.{self.name}" if self.name else "sink"

    def is_on_server_of(self, source: Source) -> bool:
        """Return whether the options show that the sink writes to the Redis of the source."""
        return self.options.get("url") in (None, source.options.get("url"))

    def all_options(self) -> dict[str, str]:
        """Return the options of the format, with the target."""
        return {**self.options, **(dict([self.target]) if self.target else {})}


@dataclass(frozen=True, slots=True)
class Table:
    """A static table that the SQL of a pipeline can read. It is read when the run starts."""

    #: The name of the view.
    name: str
    path: str
    #: Spark's name of the format. Defaults to Parquet.
    format: str = "parquet"
    #: The columns as DDL. None: those of the files.
    ddl: str | None = None
    #: Options of the format. Defaults to none.
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RejectPolicy:
    """What happens to rejected rows."""

    #: The queue for their dead letters; None: the queue of each row.
    queue: str | None = None
    #: Share of rejected messages above which the run stops; None: never.
    stop_above: float | None = None


#: File formats: a pipeline writes each batch into its own folder.
FILE_FORMATS = ("parquet", "orc", "json", "csv", "avro", "xml")
#: Sources and targets of the format "ackq", with their options.
SOURCES: dict[str, tuple[Kind, str]] = {
    "queue": ("queue", "queue"),
    "queues": ("queue", "queues"),
    "topic": ("topic", "topic"),
    "delay_queue": ("delayQueue", "delayQueue"),
}
SINKS = {
    "queue": "queue",
    "topic": "topic",
    "delay_queue": "delayQueue",
    "queue_column": "queueColumn",
    "topic_column": "topicColumn",
}
#: Options of source and sink that a pipeline sets itself, and what to use instead.
SET_BY_US = {
    "queue": "the key queue of this section",
    "queues": "the key queues of this section",
    "queuecolumn": "the key queue_column of this section",
    "topiccolumn": "the key topic_column of this section",
    "topic": "the key topic of this section",
    "delayqueue": "the key delay_queue of this section",
    "groupid": "the key group of [source]",
    "path": "the key path of this section",
    "schema": "the section [schema]",
    "columnnameofcorruptrecord": "nothing: messages that do not parse become dead letters",
    "mode": "nothing: messages that do not parse become dead letters",
    "includemetadata": "nothing: a pipeline always has the metadata",
    "writemode": "nothing: a pipeline writes in transactions",
    "txnappid": "nothing: the id of the query is used",
    "txnversion": "nothing: the number of the batch is used",
}
#: Keys of [source] for the format of bodies, and the options that they set.
FORMAT = {
    "format": "format",
    "schema_file": "schemaFile",
    "schema_registry": "schemaRegistry",
    "message_type": "messageType",
    "envelope": "envelope",
}
SET_BY_US |= {option.lower(): f"the key {key} of [source]" for key, option in FORMAT.items()}
#: Keys that belong elsewhere, and where.
_AT_THE_TOP = dict.fromkeys(
    ("name", "checkpoint", "every", "trigger"), "write it before the first section"
)
_OF_A_NAMED_SINK = dict.fromkeys(
    ("sql", "watermark", "output_mode"), "name the sink, as in [sinks.all], to use it"
)
#: The trigger with which a run ends by itself.
ONCE = "once"
#: Views that a pipeline makes.
VIEWS = ("messages", "rows")
_INTERVAL = re.compile(r"every (\d{1,6}) ?(ms|s|min|h)", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
#: Seconds between micro-batches that write files, so that the files do not get too small.
FILES_EVERY = 10.0


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """The configuration of a pipeline. Create it with `read` or `of`, which check it."""

    #: Name of the configuration in errors: the file, or "the configuration".
    where: str
    name: str
    #: The folder of Spark's checkpoint, one for each pipeline. Keep it as long as the pipeline.
    checkpoint: str
    source: Source
    validation: Validation
    transform: Transform
    #: One or more, written one after another.
    sinks: tuple[Sink, ...]
    rejects: RejectPolicy
    #: Seconds from one micro-batch to the next; 0: as soon as messages are ready. Defaults to 10
    #: if a sink is files, else to 0.
    every: float
    #: Whether every run ends when it has processed the messages that were ready at its start.
    once: bool = False
    #: Tables for the SQL. Defaults to none.
    tables: tuple[Table, ...] = ()
    #: Settings of the Spark session, such as ``spark.master``. Defaults to none.
    spark: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read the TOML file at ``path``. Paths in it are relative to its folder.

        Raises:
            PipelineConfigError: the file cannot be read, or is not valid. The error names the
                file, the section, the key and a fix.
        """
        file = Path(path)
        try:
            values = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise PipelineConfigError(f"{file}: cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PipelineConfigError(f"{file}: is not TOML: {error}") from error
        return cls.of(values, where=str(file), base=file.absolute().parent, name=file.stem)

    @classmethod
    def of(
        cls,
        values: Mapping[str, Any],
        *,
        where: str = "the configuration",
        base: Path | None = None,
        name: str | None = None,
    ) -> Self:
        """Return the configuration in ``values``, a mapping structured like a file.

        Args:
            values: the sections and keys; a callable may be the function itself.
            where: the name of the configuration in errors.
            base: the folder to which paths are relative. Defaults to the current one.
            name: the name of the pipeline, if ``values`` has none.

        Raises:
            PipelineConfigError: as in `read`.
        """
        top = Section(where, "", values, (base or Path.cwd()))
        named = top.text("name", name) or top.missing("name")
        config = cls(
            where=where,
            name=named,
            checkpoint=(checkpoint := top.path("checkpoint") or top.missing("checkpoint")),
            source=(source := _source(top.section("source", required=True), named)),
            validation=_validation(top.section("schema"), top.section("checks")),
            transform=_transform(top.section("transform")),
            sinks=(sinks := _sinks(top, checkpoint)),
            rejects=_rejects(top.section("rejects"), source),
            every=_every(top, sinks),
            once=top.text("trigger") == ONCE,
            tables=_tables(top.section("tables")),
            spark=spark_settings(top.section("spark")),
        )
        top.end()
        if source.format and config.validation.ddl is None:
            top.section("schema").missing("ddl", "the columns to read from the bodies")
        for sink in sinks:
            if sink.path and _is_within(sink.path, checkpoint):
                problem = "is in the folder of the checkpoint, whose files are Spark's"
                raise refused(where, sink.section, "path", f"{problem}: choose another folder")
            if sink.target and source.reads(*sink.target) and sink.is_on_server_of(source):
                problem = "is also the source, so the pipeline would never end"
                key = next(key for key, option in SINKS.items() if option == sink.target[0])
                raise refused(where, sink.section, key, f"{problem}: choose another target")
        return config


def _is_within(path: str, folder: str) -> bool:
    inner, outer = (PurePath(local_path(each) or each.rstrip("/")) for each in (path, folder))
    return inner.is_relative_to(outer)


def _source(section: Section, name: str) -> Source:
    key = section.one_of(tuple(SOURCES))
    kind, option = SOURCES[key]
    names = section.texts(key) if key == "queues" else (_named(section, key),)
    if not names:
        section.wrong(key, 'must name a queue, such as ["orders"]')
    source = Source(
        kind=kind,
        option=option,
        names=names,
        group=section.text("group", None if key == "topic" else name),
        options=section.options(SET_BY_US),
        format=_format(section),
    )
    section.end(_AT_THE_TOP)
    try:
        if source.group is not None:
            check_group(source.group)
    except ConfigurationError as error:
        section.wrong("group", str(error))
    try:
        Reading.of(source.all_options())
    except QueueNameError as error:
        section.wrong(key, str(error))
    except ConfigurationError as error:
        section.wrong("options", str(error))
    return source


def _format(section: Section) -> dict[str, str]:
    """Return the options for the format of bodies."""
    values = {
        key: section.path(key) if key == "schema_file" else section.text(key) for key in FORMAT
    }
    return {FORMAT[key]: value for key, value in values.items() if value is not None}


def _validation(section: Section, checks: Section) -> Validation:
    validation = Validation(section.text("ddl"), section.texts("not_null"), checks.all_texts())
    section.end()
    return validation


def _transform(section: Section) -> Transform:
    section.at_most_one("sql", "callable")
    transform = Transform(section.text("sql"), section.function("callable"))
    section.end()
    return transform


def _every(top: Section, sinks: Sequence[Sink]) -> float:
    """Return the seconds of the keys ``every`` and ``trigger``."""
    top.at_most_one("every", "trigger")
    files = any(sink.kind == "files" for sink in sinks)
    trigger = top.text("trigger", ONCE)
    if trigger == ONCE:
        return top.seconds("every", FILES_EVERY if files else 0.0)
    matched = _INTERVAL.fullmatch(trigger or "")
    if matched is None:
        top.wrong(
            "trigger",
            f"must be {ONCE!r}, or an interval such as 'every 30 s' or 'every 1 min', not"
            f" {trigger!r}. Spark's continuous mode reads no source written in Python",
        )
    seconds = int(matched[1]) * _UNITS[matched[2]]
    if seconds > MAX_SECONDS:
        top.wrong("trigger", f"must be at most a day, not {trigger!r}")
    return seconds


def _tables(section: Section) -> tuple[Table, ...]:
    tables = []
    for name in section.names():
        if _TABLE.fullmatch(name) is None or name.lower() in VIEWS:
            section.wrong(name, f"cannot be a table: use letters, digits and _, and not {VIEWS}")
        one = section.section(name)
        path = one.path("path") or one.missing("path")
        format = (one.text("format", "parquet") or "").lower()
        tables.append(Table(name, path, format, one.text("ddl"), one.options({})))
        one.end()
    return tuple(tables)


def _sinks(top: Section, checkpoint: str) -> tuple[Sink, ...]:
    """Return the only sink, ``[sink]``, or those of ``[sinks.NAME]``."""
    if top.one_of(("sink", "sinks")) == "sink":
        return (_sink(top.section("sink"), _OF_A_NAMED_SINK),)
    section = top.section("sinks")
    sinks = []
    for name in section.names():
        if _TABLE.fullmatch(name) is None:
            section.wrong(name, "is no name for a sink: use letters, digits and _")
        one = section.section(name)
        sql, stateful = one.text("sql"), _stateful(one, f"{checkpoint}/sinks/{name}")
        if stateful is not None and sql is None:
            one.missing("sql", "the query that output_mode and watermark apply to")
        sinks.append(replace(_sink(one, {}), name=name, sql=sql, stateful=stateful))
    if not sinks:
        top.wrong("sinks", "is empty: add a section [sinks.NAME]")
    paths = [sink.path for sink in sinks if sink.path]
    for sink in sinks:
        if paths.count(sink.path or "") > 1:
            section.section(sink.name).wrong("path", "is also that of another sink")
    return tuple(sinks)


def _stateful(section: Section, folder: str) -> Stateful | None:
    mode, watermark = section.text("output_mode"), section.section("watermark")
    column, delay = watermark.text("column"), watermark.text("delay")
    watermark.end()
    if mode is None and column is None and delay is None:
        return None
    if (column is None) != (delay is None):
        watermark.missing("column" if column is None else "delay")
    if mode not in (None, "append", "update"):
        section.wrong("output_mode", f"must be 'append' or 'update', not {mode!r}")
    return Stateful(
        "update" if mode == "update" else "append",
        folder,
        (column, delay) if column and delay else None,
    )


def _sink(section: Section, elsewhere: Mapping[str, str]) -> Sink:
    elsewhere = {**_AT_THE_TOP, **elsewhere}
    kind = section.one_of((*SINKS, "format", "path"), together={"format", "path"})
    if kind in SINKS:
        sink = Sink(
            "ackq",
            "ackq",
            target=(SINKS[kind], _target(section, kind)),
            options=section.options(SET_BY_US),
        )
        section.end(elsewhere)
        try:
            Writing.of(sink.all_options(), stream=False)
        except ConfigurationError as error:
            section.wrong("options", str(error))
        return sink
    format = (section.text("format", "parquet") or "").lower()
    if format == "ackq":
        section.wrong(
            "format", "for ackq, use one of the keys queue, topic and delay_queue instead"
        )
    files = format in FILE_FORMATS
    path = section.path("path")
    if files and not path:
        section.missing("path", f"the folder for the {format} files")
    sink = Sink(
        "files" if files else "other",
        format,
        path,
        partition_by=section.texts("partition_by"),
        options=section.options({"path": SET_BY_US["path"]}),
    )
    section.end(elsewhere)
    return sink


def _rejects(section: Section, source: Source) -> RejectPolicy:
    queue = section.text("queue")
    if queue is not None:
        _named(section, "queue")
    elif source.kind != "queue":
        section.missing(
            "queue", f"a {source.label} has no dead letters of rows, so name a queue for them"
        )
    rejects = RejectPolicy(queue, section.share("stop_above"))
    section.end()
    return rejects


def _target(section: Section, key: str) -> str:
    """Return the name of a queue, topic or delay queue, or of the column that names it."""
    is_column = key.endswith("_column")
    return section.text(key) or section.missing(key) if is_column else _named(section, key)


def _named(section: Section, key: str) -> str:
    name = section.text(key) or section.missing(key)
    try:
        check_name(name)
    except ConfigurationError as error:
        section.wrong(key, str(error))
    return name
