"""A delay queue as operations see it: keys, messages, ready times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import mmh3
from redis.exceptions import ResponseError

from ackq.config import QueueConfig, Seconds, check_integer
from ackq.core import observation
from ackq.core.call import raise_for_type
from ackq.core.effects import Operation
from ackq.core.encode import Pushable, mapping_of
from ackq.core.fencing import Leased
from ackq.core.json_values import from_json, is_record, to_json
from ackq.core.outside import Outside
from ackq.errors import ConfigurationError, InvalidMessage, MessageTooLarge
from ackq.membership.operations import GroupKeys, GroupSpec

#: Latest ready time in µs, the year 2242: beyond it, seconds as a float lose microseconds.
LATEST = 8_589_934_591_000_000
#: Longest delay in µs: a hundred years.
MAX_DELAY = 3_153_600_000_000_000
#: Longest message key in bytes.
MAX_KEY = 512
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The types of a queue's keys, in the order of the scripts' parameters.
KINDS = ("zset", "hash", "zset", "hash", "hash", "stream", "list", "hash", "hash")


@dataclass(frozen=True, slots=True)
class DelayKeys:
    """The keys of one queue or partition. ``z`` and ``h`` are those of the article
    "Go+Redis implements delay queue operation"."""

    z: bytes
    h: bytes
    leases: bytes
    extended: bytes
    receives: bytes
    dead: bytes
    wake: bytes
    errors: bytes
    counters: bytes

    @classmethod
    def of(cls, name: str) -> DelayKeys:
        """Return the keys of a queue; ``name`` was checked."""
        return cls(*(f"{name}:{part.name}".encode() for part in fields(cls)))

    def all(self) -> tuple[bytes, ...]:
        """Return the keys in the order of the scripts' parameters."""
        return (
            self.z,
            self.h,
            self.leases,
            self.extended,
            self.receives,
            self.dead,
            self.wake,
            self.errors,
            self.counters,
        )

    @property
    def claims(self) -> bytes:
        """The key that names all claims. A group's record is at this key, a colon and its name."""
        return self.z[:-1] + b"claims"

    @property
    def claim(self) -> bytes:
        """How the key of a claim begins; the group, a colon and the batch follow."""
        return self.z[:-1] + b"claim:"


@dataclass(frozen=True, slots=True)
class DelaySpec:
    """One queue: a single partition without a number, or numbered ones that a group divides."""

    name: str
    config: QueueConfig
    partitions: tuple[DelayKeys, ...]
    #: The group's keys, which scripts use for fencing; without a ``group`` they do not exist.
    fence: GroupKeys
    group: GroupSpec | None = None
    #: Random numbers and the time of day.
    outside: Outside = field(kw_only=True, repr=False, compare=False)
    #: Longest blocking command in seconds; see `QueueSpec.block_limit`.
    block_limit: float = 1.0

    @classmethod
    def plain(
        cls, name: str, config: QueueConfig, block_limit: float, outside: Outside
    ) -> DelaySpec:
        """Return a queue without partitions.

        Raises:
            QueueNameError: the queue's name cannot be used.
        """
        fence = GroupKeys.of(name)
        return cls(name, config, (DelayKeys.of(name),), fence, None, block_limit, outside=outside)

    @classmethod
    def partitioned(
        cls, name: str, config: QueueConfig, group: GroupSpec, block_limit: float, outside: Outside
    ) -> DelaySpec:
        """Return a queue with the partitions of ``group``."""
        partitions = tuple(DelayKeys.of(f"{name}:{number}") for number in range(group.partitions))
        return cls(name, config, partitions, group.keys, group, block_limit, outside=outside)

    def number(self, index: int) -> int | None:
        """Return the partition's number as users see it: None if the queue has no partitions."""
        return index if self.group else None

    def index_of(self, key: bytes, partition: int | None) -> int:
        """Return the index of ``partition``, or of the partition of ``key`` if it is None.

        Raises:
            ConfigurationError: there is no such partition.
        """
        if partition is None:
            return partition_of(key, len(self.partitions)) if self.group else 0
        check_integer(partition, "partition", 0, len(self.partitions) - 1)
        return partition

    def keys_of(self, partitions: Iterable[int]) -> list[bytes]:
        """Return all keys of some partitions, one partition after the other."""
        return [key for index in partitions for key in self.partitions[index].all()]

    def raise_for_reply(self, error: ResponseError) -> Operation[NoReturn]:
        """Raise `KeyTypeError` if a key has another type, else ``error`` itself."""
        expected = dict(zip(self.fence.all(), ("zset", "hash", "hash"), strict=True))
        for keys in self.partitions:
            expected |= dict(zip(keys.all(), KINDS, strict=True))
        return raise_for_type(f"delay queue {self.name!r}", expected, error)


class DelayedMessage(Leased):
    """A message under a lease: yours until ``lease_expires_at``, then delivered again.

    Attributes:
        queue: name of the queue.
        partition: number of the partition; None in a queue without partitions.
        key: the message's key, unique among those stored.
        body: the bytes that the producer pushed, unchanged.
        ready_time: when it became ready, in seconds since the epoch. For a redelivered message,
            when it became ready again.
        receipt: the deadline that the take assigned, in microseconds since the epoch.
        receive_count: deliveries so far, including this one; 1 the first time.
        lease_expires_at: when the lease ends, in seconds since the epoch by the server's clock.
        lease_lost: True once a settle of this message was refused, or another consumer or an
            operator was found to have settled it.
        dead: True once a nack or reject of this consumer moved it to the dead letters. False if
            the reply was lost, since then nobody knows.
        session: the consumer's session in its group; empty in a queue without partitions.
    """

    __slots__ = ("key", "partition", "ready_time", "session")
    kind = "delay queue"
    cause = "the lease ended or the consumer was fenced off"

    def __init__(
        self,
        queue: str,
        key: str,
        body: bytes,
        *,
        partition: int | None = None,
        ready_time: float = 0.0,
        receipt: int = 0,
        receive_count: int = 1,
        session: bytes = b"",
    ) -> None:
        self.queue = queue
        self.partition = partition
        self.key = key
        self.body = body
        self.ready_time = ready_time
        self.receipt = receipt
        self.receive_count = receive_count
        self.lease_expires_at = receipt / 1_000_000
        self.lease_lost = False
        self.dead = False
        self.session = session
        self.settles_sent = 0
        self.settled_by = None
        self.failure = b""

    @property
    def label(self) -> str:
        """What errors call the message."""
        return self.key

    def json(self) -> Any:
        """Return the body parsed as JSON by orjson.

        Raises:
            orjson.JSONDecodeError: the body is not JSON (a ValueError).
        """
        return from_json(self.body, self.key)

    def __repr__(self) -> str:
        # A body may contain secrets, and this text may be logged, so show only the size.
        where = "" if self.partition is None else f" partition {self.partition}"
        return (
            f"<DelayedMessage {self.key!r} of {self.queue!r}{where}, {len(self.body)} bytes, "
            f"receive {self.receive_count}>"
        )


@dataclass(frozen=True, slots=True)
class DelayStats:
    """How many messages are in each state, at one instant. Each is counted once.

    ``next_event_in`` is the time in seconds until the next message is ready or lease ends; 0 if
    one is ready, None if nothing is stored.
    """

    ready: int
    in_flight: int
    delayed: int
    dead: int
    next_event_in: float | None


Body = Pushable | str


@dataclass(frozen=True, slots=True)
class DelayEntry:
    """A message to push. Give at most one of the four times; without one, it is ready at once."""

    #: Unique among the stored messages of the queue, or of its partition; 1 to 512 bytes.
    key: str
    #: Bytes, stored unchanged; text, stored as UTF-8; or a mapping, stored as JSON.
    body: Body
    #: Until it is ready: seconds, or a timedelta; up to a hundred years.
    delay: Seconds | None = None
    #: Until it is ready, in milliseconds.
    delay_ms: int | None = None
    #: When it is ready: seconds since the epoch, or a datetime with a time zone.
    at: float | datetime | None = None
    #: When it is ready, in milliseconds since the epoch.
    at_ms: int | None = None
    #: Number of the partition. Defaults to None: chosen by murmur3 of the key.
    partition: int | None = None


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of ``key``: murmur3, x86 32-bit, seed 0, unsigned, by remainder."""
    return mmh3.hash(key, 0, signed=False) % partitions


def encode_key(key: str) -> bytes:
    """Return a message key as Redis stores it; `decode_key` reverses this.

    Raises:
        InvalidMessage: not text of 1 to 512 bytes.
    """
    raw = raw_key(key)
    if not 1 <= len(raw) <= MAX_KEY:
        raise InvalidMessage(f"a message key is 1 to {MAX_KEY} bytes of text, not {key!r}")
    return raw


def raw_key(key: str) -> bytes:
    """Return any key as Redis stores it, even one that other clients made too long.

    Raises:
        InvalidMessage: the key is not text, or no bytes decode to it.
    """
    try:
        if isinstance(key, str):
            return key.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        pass
    raise InvalidMessage(f"a message key is 1 to {MAX_KEY} bytes of text, not {key!r}")


def decode_key(raw: bytes) -> str:
    """Return a message key as text, whatever bytes other clients used."""
    return raw.decode(errors="surrogateescape")


def encode_body(key: str, body: Body, limit: int) -> bytes:
    """Return the body as bytes.

    Raises:
        InvalidMessage: another type, or a value that JSON cannot hold.
        MessageTooLarge: longer than ``limit`` bytes.
    """
    if isinstance(body, bytes | bytearray | memoryview):
        raw = bytes(body)
    else:
        try:
            raw = body.encode() if isinstance(body, str) else _json(body)
        except (TypeError, UnicodeEncodeError) as error:
            raise InvalidMessage(f"message {key!r} has an invalid body: {error}") from error
    if len(raw) > limit:
        raise MessageTooLarge(
            f"message {key!r} is {len(raw)} bytes, over the limit of {limit}: store the content"
            " elsewhere and push a reference, or raise max_body_bytes"
        )
    if isinstance(body, Mapping) and (members := observation.members()):
        return members.added_to(raw, body, limit)
    return raw


def _json(body: Any) -> bytes:
    if not isinstance(body, Mapping) and not is_record(body):
        raise TypeError(f"it is bytes, text, a mapping or a record, not {type(body).__name__}")
    return to_json(dict(mapping_of(body)))


def due(
    delay: Seconds | None,
    delay_ms: int | None,
    at: float | datetime | None,
    at_ms: int | None,
) -> tuple[str, int]:
    """Return the scripts' clock and due-time arguments, rounded up so that it is never early.

    Raises:
        ConfigurationError: more than one is given, or one is out of range.
    """
    given = [option for option in (delay, delay_ms, at, at_ms) if option is not None]
    if len(given) > 1:
        raise ConfigurationError("give one of delay, delay_ms, at and at_ms")
    if delay_ms is not None:
        check_integer(delay_ms, "delay_ms", 0, MAX_DELAY // 1000)
        return "delay", delay_ms * 1000
    if at_ms is not None:
        check_integer(at_ms, "at_ms", 0, LATEST // 1000)
        return "at", at_ms * 1000
    if at is not None:
        return "at", _microseconds(at, "at", LATEST)
    return "delay", _microseconds(delay or 0, "delay", MAX_DELAY)


def _microseconds(value: float | timedelta | datetime, name: str, limit: int) -> int:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ConfigurationError(
                f"at={value!r} has no time zone: Redis and you may differ; add one"
            )
        value = value - _EPOCH
    if isinstance(value, timedelta):
        whole = value // timedelta(microseconds=1)
    elif (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not 0 <= value <= limit / 1_000_000
    ):
        raise ConfigurationError(f"{name} is 0 to {limit / 1_000_000:g} seconds, not {value!r}")
    else:
        whole = round(value * 1_000_000)
        whole += whole / 1_000_000 < value
    check_integer(whole, f"{name} in microseconds", 0, limit)
    return whole
