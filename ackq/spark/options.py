"""Options of a source: the queue or topic, its Redis, and how to read it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast
from urllib.parse import quote, urlsplit, urlunsplit

import redis

from ackq.core.client import client_of
from ackq.core.io.settings import bad_url, bounded, check_url
from ackq.core.names import check_group, check_name
from ackq.errors import ConfigurationError
from ackq.membership.operations import MOST_PARTITIONS
from ackq.sharded.operations import shard_names
from ackq.spark.given import RawOptions, refused

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
#: The environment variable with the URL, unless an option sets it. The place for a password.
URL_VARIABLE = "ACKQ_REDIS_URL"

#: Options of sources and sinks that name the target and its Redis.
PLACE = ("url", "passwordFile", "cluster", "path", "queue", "topic", "delayQueue", "shards")
PARSING = ("includeMetadata", "mode", "columnNameOfCorruptRecord", "timeZone")
_LOOK = ("state", "partitions", "fetchSize", "retryTimeoutMs")
_STREAM = (
    "groupId", "maxMessagesPerTrigger", "maxOffsetsPerTrigger", "maxBytesPerTrigger",
    "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "claimTimeoutMs", "ackMode",
    "pollIntervalMs", "fetchSize", "retryTimeoutMs", "startingOffsets", "endingOffsets",
)  # fmt: skip

Kind = Literal["queue", "topic", "delayQueue"]
State = Literal["ready", "in_flight", "delayed", "dead"]
STATES: tuple[State, ...] = ("ready", "in_flight", "delayed", "dead")


@dataclass(frozen=True, slots=True)
class Connection:
    """How to connect to Redis. Contains no secrets, so it can be sent to executors."""

    url: str | None
    password_file: str | None = None
    cluster: bool = False

    @classmethod
    def of(cls, given: RawOptions) -> Connection:
        """Read the options ``url``, ``passwordFile`` and ``cluster``.

        Raises:
            ConfigurationError: the URL contains a password, which would appear in plans and tasks.
        """
        url = given.text("url")
        if url is not None and _holds_secret(url):
            raise ConfigurationError(
                "option 'url' holds a password, and options travel through plans and logs: put"
                f" the whole URL into the environment variable {URL_VARIABLE} of driver and"
                " executors, or the password alone into a file and name it in 'passwordFile'"
            )
        return cls(url, given.text("passwordFile"), given.flag("cluster", False))

    def client(self) -> redis.Redis | redis.RedisCluster:
        """Return a client of this process, made once.

        Raises:
            ConfigurationError: this machine has no URL, or it is not valid.
        """
        return _client(self)

    def address(self) -> str:
        """Return the URL with its password. Only for `client`."""
        url = self.url or os.environ.get(URL_VARIABLE)
        if not url:
            raise ConfigurationError(
                f"where is Redis? Set the option 'url', or the environment variable {URL_VARIABLE}"
                " on the driver and on every executor"
            )
        return url if self.password_file is None else _with_password(url, self.password_file)


@cache
def _client(connection: Connection) -> redis.Redis | redis.RedisCluster:
    url = connection.address()
    if not connection.cluster:
        return client_of(url)
    check_url(url)
    try:
        # It connects at once, so the limits are added to the URL, whose own options win.
        return redis.RedisCluster.from_url(url, **bounded({}))
    except ValueError as error:
        raise bad_url(url, error) from None


def _holds_secret(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.password is not None or "password=" in parts.query.lower()
    except ValueError:
        return "@" in url or "password=" in url.lower()


def _with_password(url: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            password = file.read().strip("\r\n")
    except OSError as error:
        raise ConfigurationError(f"option 'passwordFile': {path!r}: {error.strerror}") from None
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise bad_url(url, error) from None
    user, host = parts.username or "", parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


@dataclass(frozen=True, slots=True)
class Place:
    """The queue, topic or delay queue to read or write."""

    kind: Kind
    name: str
    #: The lists of a queue: the queue itself, or one per shard.
    lists: tuple[str, ...]

    @classmethod
    def of(cls, given: RawOptions) -> Place:
        """Read the options ``queue`` (or the path), ``topic``, ``delayQueue`` and ``shards``.

        Raises:
            ConfigurationError: none of the targets is set, or more than one.
        """
        kinds: dict[str, Kind] = {
            "queue": "queue", "path": "queue", "topic": "topic", "delayQueue": "delayQueue",
        }  # fmt: skip
        named = [option for option in kinds if option in given]
        if len(named) != 1:
            raise ConfigurationError(
                "name one 'queue' (or pass it to load or save), one 'topic' or one 'delayQueue',"
                f" not {' and '.join(map(repr, named)) or 'none'}"
            )
        name = cast(str, given.text(named[0]))
        kind = kinds[named[0]]
        if "shards" not in given:
            check_name(name)
            return cls(kind, name, (name,))
        if kind != "queue":
            raise ConfigurationError(f"option 'shards' is for a queue, not for {named[0]!r}")
        return cls(kind, name, shard_names(name, given.integer("shards", 1, 1, 1024)))


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

    @classmethod
    def of(cls, given: RawOptions) -> Parsing:
        """Read the options for parsing."""
        return cls(
            given.flag("includeMetadata", False),
            cast(
                Literal["PERMISSIVE"],
                given.choice("mode", "PERMISSIVE", ("PERMISSIVE", "FAILFAST")),
            ),
            given.text("columnNameOfCorruptRecord") or CORRUPT_COLUMN,
            _time_zone(given),
        )


def _time_zone(given: RawOptions) -> str:
    from zoneinfo import ZoneInfo

    name = given.text("timeZone") or "UTC"
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise refused("timeZone", "a zone such as 'Europe/Berlin'", name) from None
    return name


@dataclass(frozen=True, slots=True)
class Reading:
    """How a stream, or a look, reads. Pickled into every task: no secrets here."""

    connection: Connection
    place: Place
    parsing: Parsing
    group: str
    #: Maximum messages in a batch.
    max_messages: int
    #: Maximum bytes of bodies in a batch, the last message included; None: no limit.
    max_bytes: int | None
    #: Minimum partitions of a batch; None: the number of processors of this machine, or fewer if
    #: they would be small.
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
    #: Where a topic begins and, in a look, ends: an index, "earliest" or "latest".
    starting: int | Literal["earliest", "latest"]
    ending: int | Literal["latest"]
    #: What a look shows; None, of a queue: the ready messages, in the columns of a stream.
    state: State | None
    #: Of the delay queue that is looked at; None: it has none.
    partitions: int | None

    @property
    def source(self) -> str:
        """The name of the source and its group, as stored in a checkpoint."""
        named = f"{self.place.kind} {self.place.name!r}"
        return f"{named}, group {self.group!r}" if self.place.kind == "queue" else named

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Reading:
        """Check every option of a source.

        Raises:
            ConfigurationError: an option is invalid; the error names it and its allowed values.
        """
        given = RawOptions(options, dict.fromkeys((*PLACE, *PARSING, *_LOOK, *_STREAM)), "a source")
        place = Place.of(given)
        _check_fit(given, place)
        limit = "maxMessagesPerTrigger"
        if "maxOffsetsPerTrigger" in given:
            if limit in given:
                raise ConfigurationError(
                    f"options {limit!r} and 'maxOffsetsPerTrigger' mean the same: set one"
                )
            limit = "maxOffsetsPerTrigger"
        stateful = "state" in given or place.kind == "delayQueue"
        state = given.choice("state", "ready", STATES) if stateful else None
        return cls(
            connection=Connection.of(given),
            place=place,
            parsing=Parsing.of(given),
            group=_group(given),
            max_messages=given.integer(limit, MAX_MESSAGES, 1),
            max_bytes=given.integer("maxBytesPerTrigger", 0, 1) or None,
            min_partitions=given.integer("minPartitions", 0, 1, 100_000) or None,
            max_records=given.integer("maxRecordsPerPartition", MAX_RECORDS, 1),
            fail_on_data_loss=given.flag("failOnDataLoss", True),
            claim_timeout=given.integer("claimTimeoutMs", CLAIM_TIMEOUT_MS, 1000) / 1000,
            ack_mode=cast(Literal["eager"], given.choice("ackMode", "eager", ("eager", "commit"))),
            poll_interval=given.integer("pollIntervalMs", 100, 1, 3_600_000) / 1000,
            fetch_size=given.integer("fetchSize", 0, 1, 1_000_000) or None,
            retry_timeout=given.integer("retryTimeoutMs", RETRY_TIMEOUT_MS, 0) / 1000,
            starting=_edge(given, "startingOffsets", "earliest"),
            ending=cast(Literal["latest"], _edge(given, "endingOffsets", "latest")),
            state=cast(State | None, state),
            partitions=given.integer("partitions", 0, 1, MOST_PARTITIONS) or None,
        )


def _group(given: RawOptions) -> str:
    group = given.text("groupId") or "spark"
    check_group(group)
    return group


def _edge(given: RawOptions, name: str, default: str) -> int | Literal["earliest", "latest"]:
    value = (given.text(name) or default).strip().lower()
    if value == "latest" or (value == "earliest" and name == "startingOffsets"):
        return cast(Literal["latest"], value)
    if value.isdecimal() and int(value) >= (name == "startingOffsets"):
        return int(value)
    raise refused(name, "'latest', an index, or for the start 'earliest'", value)


#: Options that apply only to some kinds of source, and why.
_FITTING: dict[str, tuple[tuple[Kind, ...], str]] = {
    **dict.fromkeys(
        ("startingOffsets", "endingOffsets"),
        (("topic",), "a queue is always read from its front: what is acked is gone"),
    ),
    **dict.fromkeys(
        ("groupId", "maxBytesPerTrigger", "claimTimeoutMs", "ackMode"),
        (("queue",), "only of a queue Spark claims messages"),
    ),
    "state": (("queue", "delayQueue"), "a topic keeps what is read"),
    "partitions": (("delayQueue",), "a queue has 'shards'"),
}


#: Options only for streams, and only for spark.read.
_STREAMING = (
    "groupId", "maxMessagesPerTrigger", "maxOffsetsPerTrigger", "maxBytesPerTrigger",
    "claimTimeoutMs", "ackMode", "pollIntervalMs",
)  # fmt: skip
_LOOKING = ("state", "partitions", "endingOffsets")


def check_use(options: Mapping[str, str], *, stream: bool) -> None:
    """Reject options that do not apply to a stream, or to `spark.read`.

    Raises:
        ConfigurationError: an option does not apply; the error says what it is for.
    """
    names = {name.lower(): name for name in (_LOOKING if stream else _STREAMING)}
    for given in options:
        if name := names.get(given.lower()):
            other = "spark.read, which takes nothing" if stream else "spark.readStream"
            raise ConfigurationError(f"option {name!r} is for {other}")


def _check_fit(given: RawOptions, place: Place) -> None:
    """Reject options that do not apply to this kind of source."""
    for name, (fitting, reason) in _FITTING.items():
        if name in given and place.kind not in fitting:
            raise ConfigurationError(
                f"option {name!r} has no meaning for a {place.kind}: it is for a"
                f" {' or a '.join(fitting)}, since {reason}"
            )
