"""Options of a source: the queue or topic, its Redis, and how to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from ackq.config import PopFrom
from ackq.core.names import check_group, check_name
from ackq.errors import ConfigurationError
from ackq.membership.operations import MAX_PARTITIONS
from ackq.membership.shards import check_shards
from ackq.spark.connection import Connection
from ackq.spark.formats.body_format import OPTIONS as FORMAT_OPTIONS
from ackq.spark.formats.body_format import BodyFormat
from ackq.spark.raw_options import RawOptions, refused

#: What a pattern has and a name has not.
WILDCARDS = frozenset("*?")


def is_pattern(name: str) -> bool:
    """Return whether ``name`` is a pattern: ``*`` is any text, ``?`` any character."""
    return not WILDCARDS.isdisjoint(name)


def check_pattern(pattern: str) -> None:
    """Raise `QueueNameError` if no queue may have a name like ``pattern``."""
    check_name("".join("x" if each in WILDCARDS else each for each in pattern))


Kind = Literal["queue", "topic", "delayQueue"]

#: Default maximum number of messages in one batch.
MAX_MESSAGES = 100_000
#: Default maximum number of rows in one Spark partition.
MAX_RECORDS = 500_000
#: The column for bodies that do not fit, as in Spark's JSON reader.
CORRUPT_COLUMN = "_corrupt_record"
#: Milliseconds for which a dead query keeps its claims: as long as Kafka keeps offsets.
CLAIM_TIMEOUT_MS = 7 * 86_400_000
#: Milliseconds for which a callback retries while Redis is unreachable.
RETRY_TIMEOUT_MS = 300_000
#: Maximum queues of one source: each costs a few commands per batch.
MAX_QUEUES = 1024
#: Seconds for which a batch waits for its minimum of messages, as in Kafka's connector.
TRIGGER_DELAY = 15 * 60.0
#: Options of sources and sinks that name the target and its Redis.
TARGET = (
    "url",
    "passwordFile",
    "cluster",
    "path",
    "queue",
    "topic",
    "delayQueue",
    "shards",
    "popFrom",
)
#: An option of sources that names several queues.
QUEUES = "queues"
#: The option with which a pipeline tells its source what it has taken over.
EPOCHS = "epochs"
#: Options of sinks that name the column with the target of each row, and the kind of target.
TARGET_COLUMNS: dict[str, Kind] = {"queueColumn": "queue", "topicColumn": "topic"}
PARSING = (
    "includeMetadata",
    "mode",
    "columnNameOfCorruptRecord",
    "timeZone",
    "timeField",
    *FORMAT_OPTIONS,
)
_PEEK = ("state", "partitions", "fetchSize", "retryTimeoutMs")
_STREAM = (
    "groupId",
    "maxMessagesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "parallelism",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "claimTimeoutMs",
    "ackMode",
    "pollIntervalMs",
    "fetchSize",
    "retryTimeoutMs",
    "startingOffsets",
    "endingOffsets",
    "minMessagesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
)

State = Literal["ready", "in_flight", "delayed", "dead"]
STATES: tuple[State, ...] = ("ready", "in_flight", "delayed", "dead")


@dataclass(frozen=True, slots=True)
class Target:
    """The queue, topic or delay queue to read or write."""

    kind: Kind
    name: str
    #: The lists of a queue: the queue itself, one per shard, or all queues of a source; or the
    #: partitions of a source's delay queue. Those of sharded queues and of patterns are known once
    #: they are `found`.
    lists: tuple[str, ...]
    #: The end of these lists that is popped.
    pop_from: PopFrom = "right"
    #: The names and patterns in the option ``queues``. Those of queues, once they are `found`.
    several: tuple[str, ...] = ()
    #: The column of a sink's rows that names the queue or topic of each; then there are no lists.
    column: str | None = None
    #: The number of shards of each queue.
    shards: int | None = None
    #: How many lists of a sharded queue are in use; the others are former shards.
    used: int | None = None
    #: Whether its number of shards has ever changed.
    resized: bool = False

    @classmethod
    def of(cls, raw: RawOptions) -> Target:
        """Read the options ``queue`` (or the path), ``queues``, ``topic``, ``delayQueue``, ...

        Raises:
            ConfigurationError: none of the targets is set, or more than one.
        """
        kinds: dict[str, Kind] = {
            "queue": "queue",
            "path": "queue",
            QUEUES: "queue",
            "topic": "topic",
            "delayQueue": "delayQueue",
            **TARGET_COLUMNS,
        }
        named = [option for option in kinds if option in raw]
        if len(named) != 1:
            raise ConfigurationError(
                "set one of the options 'queue' (or the path of load or save), 'topic' and"
                f" 'delayQueue', not {' and '.join(map(repr, named)) or 'none'}"
            )
        name = cast(str, raw.text(named[0]))
        kind = kinds[named[0]]
        for option in ("shards", "popFrom"):
            if option in raw and kind != "queue":
                raise ConfigurationError(f"option {option!r} is for a queue, not for {named[0]!r}")
        if "shards" in raw and named[0] in TARGET_COLUMNS:
            raise ConfigurationError(f"option 'shards' is for a queue, not for {named[0]!r}")
        end = cast(PopFrom, raw.choice("popFrom", "right", ("right", "left")))
        if named[0] in TARGET_COLUMNS:
            return cls(kind, f"of column {name!r}", (), end, column=name)
        if named[0] == QUEUES:
            return _several(raw, name, end)
        if "shards" not in raw:
            check_name(name)
            return cls(kind, name, (name,), end)
        shards = raw.integer("shards", 1, 1, MAX_PARTITIONS)
        check_shards(name, shards)
        return cls(kind, name, (), end, shards=shards)


def _several(raw: RawOptions, names: str, end: PopFrom) -> Target:
    """Return the target for the option ``queues``."""
    queues = tuple(each.strip() for each in names.split(","))
    if len(set(queues)) < len(queues) or len(queues) > MAX_QUEUES:
        wanted = f"1 to {MAX_QUEUES} different names, separated by commas"
        raise refused(QUEUES, wanted, names)
    shards = raw.integer("shards", 0, 1, MAX_PARTITIONS) or None
    for queue in queues:
        if not is_pattern(queue):
            check_name(queue) if shards is None else check_shards(queue, shards)
        elif shards is None:
            check_pattern(queue)
        else:
            raise ConfigurationError(
                f"option {QUEUES!r}: {queue!r} is a pattern, but the lists of sharded queues have"
                " other names: name the queues, or leave 'shards' out"
            )
    located = shards is None and not any(map(is_pattern, queues))
    return Target("queue", names, queues if located else (), end, several=queues, shards=shards)


@dataclass(frozen=True, slots=True)
class Parsing:
    """How bodies are parsed into rows."""

    #: Fill the metadata columns ``_id``, ``_body``, ``_queue``, ...
    metadata: bool = False
    #: Spark's DROPMALFORMED is not supported: it loses messages silently.
    mode: Literal["PERMISSIVE", "FAILFAST"] = "PERMISSIVE"
    corrupt_column: str = CORRUPT_COLUMN
    #: The zone of timestamps without one.
    time_zone: str = "UTC"
    #: The member of the body for the column ``_time``; None: the time of CloudEvents only.
    time_field: str | None = None
    format: BodyFormat = field(default_factory=BodyFormat)

    @classmethod
    def of(cls, raw: RawOptions) -> Parsing:
        """Read the options for parsing."""
        return cls(
            raw.flag("includeMetadata", False),
            cast(
                Literal["PERMISSIVE"],
                raw.choice("mode", "PERMISSIVE", ("PERMISSIVE", "FAILFAST")),
            ),
            raw.text("columnNameOfCorruptRecord") or CORRUPT_COLUMN,
            _time_zone(raw),
            raw.text("timeField"),
            BodyFormat.of(raw, _retry_timeout(raw)),
        )


def _time_zone(raw: RawOptions) -> str:
    from zoneinfo import ZoneInfo

    name = raw.text("timeZone") or "UTC"
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise refused("timeZone", "a zone such as 'Europe/Berlin'", name) from None
    return name


@dataclass(frozen=True, slots=True)
class Reading:
    """The options of a source. Pickled into every task, so it has no secrets."""

    connection: Connection
    target: Target
    parsing: Parsing
    group: str
    #: Maximum messages in a batch.
    max_messages: int
    #: Minimum ready messages for a new batch, and the seconds for which it waits for them.
    min_messages: int
    max_delay: float
    #: Maximum bytes of bodies in a batch, the last message included; None: no limit.
    max_bytes: int | None
    #: Number of tasks that run at the same time; None: the number of processors of this machine.
    #: A batch gets as many partitions, or fewer if they would be small.
    parallelism: int | None
    #: Minimum partitions of a batch, however small; None: no minimum.
    min_partitions: int | None
    max_records: int
    fail_on_data_loss: bool
    #: Seconds for which claims outlive the query.
    claim_timeout: float
    ack_mode: Literal["eager", "commit"]
    #: Seconds between two polls of an empty queue.
    poll_interval: float
    #: Messages per read from Redis; None: about a mebibyte of them.
    fetch_size: int | None
    #: Seconds for which a callback retries.
    retry_timeout: float
    #: Where to start reading a topic and, with `spark.read`, where to end: an index, "earliest" or
    #: "latest".
    starting: int | Literal["earliest", "latest"]
    ending: int | Literal["latest"]
    #: Messages that `spark.read` shows; None: the ready ones, with a stream's columns.
    state: State | None
    #: Partitions of the delay queue; None: it is not partitioned.
    partitions: int | None
    #: Internal: the epochs of the lists that this run has taken over already, as JSON.
    epochs: str = "{}"

    @property
    def source(self) -> str:
        """The name of the source and its group, as stored in a checkpoint.

        Several queues are not named, so that a query can add one.
        """
        if self.target.several:
            return f"queues, group {self.group!r}"
        named = f"{self.target.kind} {self.target.name!r}"
        return named if self.target.kind == "topic" else f"{named}, group {self.group!r}"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Reading:
        """Check every option of a source.

        Raises:
            ConfigurationError: an option is invalid; the error names it and its allowed values.
        """
        known = (*TARGET, QUEUES, EPOCHS, *PARSING, *_PEEK, *_STREAM)
        raw = RawOptions(options, known, "a source")
        target = Target.of(raw)
        _check_fit(raw, target)
        limit = _one_of(raw, "maxMessagesPerTrigger", "maxOffsetsPerTrigger")
        least = _one_of(raw, "minMessagesPerTrigger", "minOffsetsPerTrigger")
        if "maxTriggerDelay" in raw and least not in raw:
            raise ConfigurationError("option 'maxTriggerDelay' needs 'minMessagesPerTrigger'")
        state = raw.choice("state", "ready", STATES) if "state" in raw else None
        partitions = raw.integer("partitions", 0, 1, MAX_PARTITIONS) or None
        if partitions is not None:
            # A partition is stored like a queue with its name.
            lists = tuple(f"{target.name}:{at}" for at in range(partitions))
            target = replace(target, lists=lists)
        return cls(
            connection=Connection.of(raw),
            target=target,
            parsing=Parsing.of(raw),
            group=_group(raw),
            max_messages=raw.integer(limit, MAX_MESSAGES, 1),
            min_messages=raw.integer(least, 1, 1),
            max_delay=raw.duration("maxTriggerDelay", TRIGGER_DELAY),
            max_bytes=raw.integer("maxBytesPerTrigger", 0, 1) or None,
            parallelism=raw.integer("parallelism", 0, 1, 100_000) or None,
            min_partitions=raw.integer("minPartitions", 0, 1, 100_000) or None,
            max_records=raw.integer("maxRecordsPerPartition", MAX_RECORDS, 1),
            fail_on_data_loss=raw.flag("failOnDataLoss", True),
            claim_timeout=raw.integer("claimTimeoutMs", CLAIM_TIMEOUT_MS, 1000) / 1000,
            ack_mode=cast(Literal["eager"], raw.choice("ackMode", "eager", ("eager", "commit"))),
            poll_interval=raw.integer("pollIntervalMs", 100, 1, 3_600_000) / 1000,
            fetch_size=raw.integer("fetchSize", 0, 1, 1_000_000) or None,
            retry_timeout=_retry_timeout(raw),
            starting=_edge(raw, "startingOffsets", "earliest"),
            ending=cast(Literal["latest"], _edge(raw, "endingOffsets", "latest")),
            state=cast(State | None, state),
            partitions=partitions,
            epochs=raw.text(EPOCHS) or "{}",
        )


def _one_of(raw: RawOptions, name: str, alias: str) -> str:
    """Return which of two names of an option is used."""
    if name in raw and alias in raw:
        raise ConfigurationError(f"options {name!r} and {alias!r} mean the same: set one")
    return alias if alias in raw else name


def _retry_timeout(raw: RawOptions) -> float:
    return raw.integer("retryTimeoutMs", RETRY_TIMEOUT_MS, 0) / 1000


def _group(raw: RawOptions) -> str:
    group = raw.text("groupId") or "spark"
    check_group(group)
    return group


def _edge(raw: RawOptions, name: str, default: str) -> int | Literal["earliest", "latest"]:
    value = (raw.text(name) or default).strip().lower()
    if value == "latest" or (value == "earliest" and name == "startingOffsets"):
        return cast(Literal["latest"], value)
    if value.isdecimal() and int(value) >= (name == "startingOffsets"):
        return int(value)
    raise refused(name, "'latest', an index or, for the start, 'earliest'", value)


#: Options that apply only to some kinds of source, and why.
_FITTING: dict[str, tuple[tuple[Kind, ...], str]] = {
    **dict.fromkeys(
        ("startingOffsets", "endingOffsets"),
        (("topic",), "a queue is always read from its front, and acked messages are deleted"),
    ),
    **dict.fromkeys(
        ("groupId", "claimTimeoutMs", "ackMode"),
        (("queue", "delayQueue"), "a topic keeps its messages, so none are claimed"),
    ),
    "state": (("queue", "delayQueue"), "a topic keeps its messages"),
    "partitions": (("delayQueue",), "a queue has 'shards'"),
}


#: Options only for streams, and only for spark.read.
_STREAM_ONLY = (
    "groupId",
    "maxMessagesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minMessagesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "claimTimeoutMs",
    "ackMode",
    "pollIntervalMs",
)
#: The same in lower case, as Spark passes them.
STREAM_ONLY = frozenset(name.lower() for name in _STREAM_ONLY)
_PEEK_ONLY = ("state", "endingOffsets")


def check_use(options: Mapping[str, str], *, stream: bool) -> None:
    """Reject options that do not apply to a stream, or to `spark.read`.

    Raises:
        ConfigurationError: an option does not apply; the error says what it is for.
    """
    names = {name.lower(): name for name in (_PEEK_ONLY if stream else _STREAM_ONLY)}
    for option in options:
        if name := names.get(option.lower()):
            other = "spark.read" if stream else "spark.readStream"
            raise ConfigurationError(f"option {name!r} is for {other}")


def _check_fit(raw: RawOptions, target: Target) -> None:
    """Reject options that do not apply to this kind of source."""
    for name, (fitting, reason) in _FITTING.items():
        if name in raw and target.kind not in fitting:
            raise ConfigurationError(
                f"option {name!r} does not apply to a {target.kind}: it is for a"
                f" {' or a '.join(fitting)}, since {reason}"
            )
