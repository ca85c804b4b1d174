"""The parts of a pipeline's configuration, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from ackq.spark.options import Kind

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
