"""Which queue or topic is meant, where its Redis is, and how it is read."""

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

#: What a stream reads by default, at most, in one batch.
MAX_MESSAGES = 100_000
#: Rows of one Spark partition by default, at most.
MAX_RECORDS = 500_000
#: The column of bodies that do not fit, as in Spark's JSON reader.
CORRUPT_COLUMN = "_corrupt_record"
#: How long a query that died keeps its claims, in milliseconds: as long as Kafka keeps offsets.
CLAIM_TIMEOUT_MS = 7 * 86_400_000
#: How long a callback tries again while Redis is away, in milliseconds.
RETRY_TIMEOUT_MS = 300_000
#: The variable that holds the URL where no option does: the place for a password.
URL_VARIABLE = "ACKQ_REDIS_URL"

#: What is read or written, and where: for sources and sinks alike.
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
    """Where Redis is. It holds no secret, so that it may travel to the executors."""

    url: str | None
    password_file: str | None = None
    cluster: bool = False

    @classmethod
    def of(cls, given: RawOptions) -> Connection:
        """Read the options ``url``, ``passwordFile`` and ``cluster``.

        Raises:
            ConfigurationError: the URL holds a password, which would travel in plans and tasks.
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
            ConfigurationError: no URL, here on this machine, or one that cannot be read.
        """
        return _client(self)

    def address(self) -> str:
        """Return the URL with the password that belongs to it. For `client` alone."""
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
        # It connects at once, so its bounds come with the URL, whose options win.
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
    """What is read or written."""

    kind: Kind
    name: str
    #: The lists of a queue: itself, or one per shard.
    lists: tuple[str, ...]

    @classmethod
    def of(cls, given: RawOptions) -> Place:
        """Read the options ``queue`` (or the path), ``topic``, ``delayQueue`` and ``shards``.

        Raises:
            ConfigurationError: none of them, or more than one.
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
    """From a body to a row."""

    #: Fill the columns ``_id``, ``_body``, ``_queue``, ... that come from the message itself.
    metadata: bool = False
    #: Spark's DROPMALFORMED is not among them: it would lose messages without a trace.
    mode: Literal["PERMISSIVE", "FAILFAST"] = "PERMISSIVE"
    corrupt_column: str = CORRUPT_COLUMN
    #: The zone of timestamps that name none.
    time_zone: str = "UTC"

    @classmethod
    def of(cls, given: RawOptions) -> Parsing:
        """Read the options of parsing."""
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
    #: Messages of one batch at most.
    max_messages: int
    #: Bytes of bodies in one batch at most, the last message included; None: no limit.
    max_bytes: int | None
    #: Partitions of a batch at least; None: as many as this machine has processors, unless they
    #: would be small.
    min_partitions: int | None
    max_records: int
    fail_on_data_loss: bool
    #: Seconds that claims outlive the query.
    claim_timeout: float
    ack_mode: Literal["eager", "commit"]
    #: Seconds between two looks at an empty queue.
    poll_interval: float
    #: Messages of one read from Redis; None: as many as make about a mebibyte.
    fetch_size: int | None
    #: Seconds that a callback tries again.
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
        """What is read, and for whom, in words that a checkpoint keeps."""
        named = f"{self.place.kind} {self.place.name!r}"
        return f"{named}, group {self.group!r}" if self.place.kind == "queue" else named

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Reading:
        """Check every option of a source.

        Raises:
            ConfigurationError: names the option, what it may be and what it was.
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


#: Options that have a meaning for some kinds only, and why.
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


#: Options of a stream alone, and of spark.read alone.
_STREAMING = (
    "groupId", "maxMessagesPerTrigger", "maxOffsetsPerTrigger", "maxBytesPerTrigger",
    "claimTimeoutMs", "ackMode", "pollIntervalMs",
)  # fmt: skip
_LOOKING = ("state", "partitions", "endingOffsets")


def check_use(options: Mapping[str, str], *, stream: bool) -> None:
    """Refuse what has no meaning for a stream, or for `spark.read`.

    Raises:
        ConfigurationError: names the option, and what it is for.
    """
    names = {name.lower(): name for name in (_LOOKING if stream else _STREAMING)}
    for given in options:
        if name := names.get(given.lower()):
            other = "spark.read, which takes nothing" if stream else "spark.readStream"
            raise ConfigurationError(f"option {name!r} is for {other}")


def _check_fit(given: RawOptions, place: Place) -> None:
    """Refuse what has no meaning for what is read."""
    for name, (fitting, reason) in _FITTING.items():
        if name in given and place.kind not in fitting:
            raise ConfigurationError(
                f"option {name!r} has no meaning for a {place.kind}: it is for a"
                f" {' or a '.join(fitting)}, since {reason}"
            )
