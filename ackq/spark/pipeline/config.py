"""The configuration of a pipeline, checked before Spark is started."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from ackq.core.names import check_group, check_name
from ackq.errors import ConfigurationError, PipelineConfigError, QueueNameError
from ackq.spark.options import Reading
from ackq.spark.pipeline.section import Section
from ackq.spark.sink_options import Writing

#: File formats: a pipeline writes each batch into its own folder.
FILE_FORMATS = ("parquet", "orc", "json", "csv", "avro", "xml")
#: Sources and targets of the format "ackq", with the option for each target.
SOURCES = ("queue", "queues", "topic")
SINKS = {"queue": "queue", "topic": "topic", "delay_queue": "delayQueue",
         "queue_column": "queueColumn", "topic_column": "topicColumn"}  # fmt: skip
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
#: Seconds between micro-batches that write files, so that the files do not get too small.
FILES_EVERY = 10.0

Transformed = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the messages."""

    #: "queue" or "topic".
    kind: str
    #: The queues, or the topic.
    names: tuple[str, ...]
    #: For a queue, the group of the claims. Defaults to the pipeline's name.
    group: str | None
    #: Options of the format "ackq", such as ``maxMessagesPerTrigger``. Defaults to none.
    options: Mapping[str, str] = field(default_factory=dict)

    def all_options(self) -> dict[str, str]:
        """Return the options of the format, including those set by other keys."""
        key = self.kind if len(self.names) == 1 else "queues"
        given = {**self.options, key: ",".join(self.names), "includeMetadata": "true"}
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
class Sink:
    """The sink of the rows."""

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

    def all_options(self) -> dict[str, str]:
        """Return the options of the format, with the target."""
        return {**self.options, **(dict([self.target]) if self.target else {})}


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
    sink: Sink
    #: The queue for the dead letters of rejected rows; None: the queue of each row.
    rejects: str | None
    #: Seconds from one micro-batch to the next; 0: as soon as messages are ready. Defaults to 10
    #: if the sink is files, else to 0.
    every: float
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
            checkpoint=top.path("checkpoint") or top.missing("checkpoint"),
            source=(source := _source(top.section("source", required=True), named)),
            validation=_validation(top.section("schema"), top.section("checks")),
            transform=_transform(top.section("transform")),
            sink=(sink := _sink(top.section("sink", required=True))),
            rejects=_rejects(top.section("rejects"), source),
            every=top.seconds("every", FILES_EVERY if sink.kind == "files" else 0.0),
            spark=top.section("spark").rest(),
        )
        top.end()
        targets = [(source.kind, name) for name in source.names]
        if sink.target in targets and "url" not in sink.options:
            top.section("sink").wrong(
                source.kind,
                "is also the source, so the pipeline would never end: choose another target",
            )
        return config


def _source(section: Section, name: str) -> Source:
    key = section.one_of(SOURCES)
    kind = "queue" if key == "queues" else key
    names = section.texts(key) if key == "queues" else (_named(section, key),)
    if not names:
        section.wrong(key, 'must name a queue, such as ["orders"]')
    source = Source(
        kind=kind,
        names=names,
        group=section.text("group", name if kind == "queue" else None),
        options=section.options(SET_BY_US),
    )
    section.end()
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


def _validation(section: Section, checks: Section) -> Validation:
    validation = Validation(section.text("ddl"), section.texts("not_null"), checks.all_texts())
    section.end()
    return validation


def _transform(section: Section) -> Transform:
    section.at_most_one("sql", "callable")
    transform = Transform(section.text("sql"), section.function("callable"))
    section.end()
    return transform


def _sink(section: Section) -> Sink:
    kind = section.one_of((*SINKS, "format", "path"), together={"format", "path"})
    if kind in SINKS:
        sink = Sink("ackq", "ackq", target=(SINKS[kind], _target(section, kind)),
                    options=section.options(SET_BY_US))  # fmt: skip
        section.end()
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
        "files" if files else "other", format, path,
        partition_by=section.texts("partition_by"),
        options=section.options({"path": SET_BY_US["path"]}),
    )  # fmt: skip
    section.end()
    return sink


def _rejects(section: Section, source: Source) -> str | None:
    queue = section.text("queue")
    if queue is not None:
        _named(section, "queue")
    elif source.kind != "queue":
        section.missing("queue", f"a {source.kind} has no dead letters, so name a queue for them")
    section.end()
    return queue


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
