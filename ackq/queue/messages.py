"""Messages and claims as consumers receive them, and the results of inspections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ackq.config import RateLimit
from ackq.core.counters import Counters
from ackq.core.creation_time import created_at
from ackq.core.effects import Arg
from ackq.core.fencing import Leased, is_several, not_leased, unpacked
from ackq.core.ids import text_of_key
from ackq.core.json_values import from_json
from ackq.core.task_name import task_of
from ackq.errors import ConfigurationError
from ackq.queue.group_names import group_of

#: What the messages of one pop share: when they were taken, in seconds since the epoch by the
#: server's clock, `QueueConfig.time_field`, and the field of its groups. A bare tuple, since each
#: pop makes one.
Delivery = tuple[float, str | None, str | None]


class Message(Leased):
    """A message under a lease: yours until ``lease_expires_at``, then delivered again.

    Attributes:
        body: the bytes that the producer pushed, unchanged.
        queue: name of the queue.
        key: the lease key: the id, or a key derived by ackq if the body has no usable id or
            another message with the same id is in flight.
        receipt: the deadline that the pop assigned, in microseconds since the epoch. Extending
            the lease does not change it. It is stale once another consumer takes the message.
        receive_count: deliveries so far, including this one; 1 the first time.
        lease_expires_at: when the lease ends, in seconds since the epoch by the server's clock.
        lease_lost: True once a settle of this message was refused, or another consumer or an
            operator was found to have settled it.
        maybe_settled: True if a settle was refused, but the reply to an earlier one was lost, which
            may have been applied before the message, or another one of its id, was taken again.
        timed_out: True once a worker's time limit for this message has passed.
        canceled: True once an `extend` has found that an operator canceled this delivery. Workers
            and `Queue.lease` extend leases after a third of their time. ``lease_lost`` is then
            True as well.
        terms: the `ackq.worker.Terms` that a handler gave it, or None. Workers read them.
        dead: True once a nack or reject of this consumer moved it to the dead letters. False if
            the reply was lost, since then nobody knows.
    """

    __slots__ = ("_delivery", "_trace_id", "canceled", "key", "terms", "timed_out")
    kind = "queue"

    def __init__(
        self,
        queue: str,
        key: bytes,
        body: bytes,
        receipt: int,
        receive_count: int,
        delivery: Delivery | None = None,
    ) -> None:
        self.queue = queue
        self.key = key
        self.body = body
        self.receipt = receipt
        self.receive_count = receive_count
        self.lease_expires_at = receipt / 1_000_000
        self.lease_lost = False
        self.timed_out = False
        self.canceled = False
        self.terms: Any = None
        self.dead = False
        self.settles_sent = 0
        self.settled_by = None
        self.failure = b""
        self._delivery = delivery

    @property
    def id(self) -> str:
        """The id in the body as text, or the lease key if the body has no usable id."""
        return text_of_key(self.key, self.body)

    @property
    def label(self) -> str:
        """What errors call the message."""
        return self.id

    @property
    def created_at(self) -> float | None:
        """When it was created, in seconds since the epoch by its producer's clock, or None.

        It is what the body has in the queue's ``time_field``, or in the ``time`` of a CloudEvent.
        None if there is no valid time. Parses the body each time.
        """
        return created_at(self.body, self._delivery[1] if self._delivery else None)

    @property
    def group(self) -> str | None:
        """The group that the body names, as text, or None. Looks into the body each time."""
        field = self._delivery[2] if self._delivery is not None else None
        return group_of(self.body, field) if field is not None else None

    @property
    def task(self) -> str | None:
        """The task that the body names, in its member ``task`` or as the type of a CloudEvent."""
        return task_of(self.body)

    @property
    def taken_at(self) -> float | None:
        """When it was taken, in seconds since the epoch by the server's clock; None if unknown."""
        return self._delivery[0] if self._delivery is not None else None

    @property
    def time_in_queue(self) -> float | None:
        """Seconds from `created_at` to this delivery, delays and retries included, or None.

        0 if the producer's clock is ahead of the server's.
        """
        created, taken = self.created_at, self.taken_at
        return None if created is None or taken is None else max(0.0, taken - created)

    @property
    def trace_id(self) -> str:
        """The trace of its handler, as 32 hex digits: set by `ackq.otel`, else empty."""
        return getattr(self, "_trace_id", "")

    @trace_id.setter
    def trace_id(self, trace: str) -> None:
        self._trace_id = trace

    def json(self) -> Any:
        """Return the body parsed as JSON by orjson, which turns integers over 64 bits into floats.

        Raises:
            orjson.JSONDecodeError: the body is not JSON (a ValueError).
        """
        return from_json(self.body, self.id)

    def __repr__(self) -> str:
        # A body may contain secrets, and this text may be logged, so show only the size.
        return (
            f"<Message {self.id!r} of {self.queue!r}, {len(self.body)} bytes, "
            f"receive {self.receive_count}>"
        )


def share_delivery(message: Message, copy: Message) -> None:
    """Let a copy know when a message was taken, and where its time and its group are."""
    copy._delivery = message._delivery


class Pushed(str):
    """The id of a pushed message, and whether this push stored it. An ordinary text otherwise.

    Attributes:
        stored: False if an earlier push under the same ``dedup`` key stored a message, whose id
            this is, or if a ``unique`` push found a message with this id in the queue. None if it
            is unknown: the reply was lost, the push was sent again, and a message with this id is
            stored, by this push or by an earlier one.
    """

    stored: bool | None = True

    @classmethod
    def refused(cls, message_id: str) -> Pushed:
        """Return the id of a message that was not stored."""
        pushed = cls(message_id)
        pushed.stored = False
        return pushed


class Redriven(int):
    """How many dead letters are ready again. An ordinary number otherwise.

    Attributes:
        refused: the entries of those that stay, because a unique push has stored a message with
            their id, which is in the queue.
    """

    refused: tuple[str, ...] = ()

    @classmethod
    def of(cls, count: int, refused: Sequence[str]) -> Redriven:
        """Return a number with the entries that stay."""
        redriven = cls(count)
        redriven.refused = tuple(refused)
        return redriven


def own_messages(name: str, given: Sequence[Any], method: str) -> Sequence[Message]:
    """Return messages of this queue, those in lists too.

    Raises:
        ConfigurationError: an argument is not a message, or is one of another queue, whose receipt
            would match nothing here.
    """
    for message in given:
        if type(message) is not Message:
            if is_several(message):
                return own_messages(name, unpacked(given), method)
            check_message(message, method)
        if message.queue != name:
            raise ConfigurationError(
                f"message {message.id!r} was taken from queue {message.queue!r},"
                f" not {name!r}: settle it there"
            )
    return given


def check_message(message: Any, method: str) -> None:
    """Raise an error unless this is a message, not, say, a reason passed without its keyword."""
    if not isinstance(message, Message):
        raise not_leased(message, method)


def by_receipt(messages: Sequence[Message]) -> tuple[list[Arg], Sequence[Message]]:
    """Return script arguments grouped by receipt, and the messages in the same order.

    Messages from one pop share a receipt, so it is passed once for all of them.
    """
    if messages:
        receipt = messages[0].receipt
        if len(messages) == 1:
            return [receipt, 1, messages[0].key], messages
        keys = [message.key for message in messages if message.receipt == receipt]
        if len(keys) == len(messages):
            return [receipt, len(keys), *keys], messages
    groups: dict[int, list[Message]] = {}
    for message in messages:
        groups.setdefault(message.receipt, []).append(message)
    args: list[Arg] = []
    order: list[Message] = []
    for receipt, members in groups.items():
        args += (receipt, len(members), *(message.key for message in members))
        order += members
    return args, order


@dataclass(frozen=True, slots=True)
class QueueStats:
    """How many messages are in each state, at one instant.

    Every message is counted once, in ready, in_flight, delayed or dead. ``expired`` and ``due``
    are parts of ``ready``: messages whose lease ended, and messages whose delay ended. Messages
    returned from claims count only in ``ready``.
    """

    ready: int
    in_flight: int
    delayed: int
    dead: int
    expired: int
    due: int
    paused: bool
    #: Seconds until the next lease ends or delayed message is due; None if there is neither.
    next_event_in: float | None
    #: Seconds until the first lease ends. Negative if it ended that long ago and its message was
    #: not taken again; None if nothing is leased. For the leases of claims, see `Queue.claims`.
    lease_ends_in: float | None = None
    #: How many of ``in_flight`` are in claims, such as Spark's.
    claimed: int = 0
    #: The counts of groups; None if the queue has no groups.
    groups: GroupCounts | None = None


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """How many groups a queue has in each state, as far as consumers have met them.

    A group may count as in flight and as ready, if more of its messages may be in flight.
    """

    #: Messages that consumers have moved aside: a part of `QueueStats.ready`.
    moved_aside: int
    #: Groups with messages that were delivered and are not settled.
    in_flight: int
    #: Groups whose turn it is: they have messages that were moved aside, and a free place.
    ready: int
    #: Groups whose next message has to wait for the rate limit of the group.
    limited: int
    #: Groups that wait for a dead letter to be redriven or dropped.
    stopped: int
    #: For how many seconds the group that has waited longest for its turn has waited; 0 if none
    #: is ready.
    turn_for: float


@dataclass(frozen=True, slots=True)
class GroupStats:
    """A group with messages in flight or moved aside, or one that is stopped, paused or limited."""

    #: A name of over 512 bytes is shown as "sha1:" and its hash.
    name: str
    #: Ready messages that were moved aside. More may be on the list, which is not counted by group.
    waiting: int
    #: Messages that were delivered and are not settled, those that wait for a retry included.
    in_flight: int
    #: Seconds since it became this group's turn. None if it is not: no message was moved aside, all
    #: places of the group are taken, it waits for its rate limit, or it is stopped.
    turn_for: float | None
    #: Seconds since the first of its waiting messages was moved aside. None if none is waiting, or
    #: if it was not read, since the first messages of many groups are long.
    oldest: float | None = None
    #: The dead letters that stop the group, by `DeadLetter.entry`; see `Groups.on_dead`.
    stopped_by: tuple[str, ...] = ()
    #: Seconds until the end of its pause, `math.inf` if it lasts until `resume_group`. None if the
    #: group is not paused.
    paused_for: float | None = None
    #: How many of its messages may be in flight, if `limit_group` has said so.
    limit: int | None = None
    #: Its own rate, if `limit_group` has given it one.
    rate: RateLimit | None = None


@dataclass(frozen=True, slots=True)
class QueueCounters(Counters):
    """What happened to the messages of a list queue since counting began; see `Counters`.

    A row that a Spark pipeline rejected counts in ``dead`` and in ``dead_rows``. It was not lost
    or delivered in another way: if it was claimed from this queue, ``acked`` counts it too,
    because the pipeline acks whole claims.

    ``dead`` has the reasons "max receives", "too large", "body missing", "rejected", "canceled" and
    those of rejected rows. Consumers of the previous release do not count nacks, releases
    and rejects; while they run, ``pushed`` and ``taken`` may be too low. ``pushed`` is None if a
    former release began the counting.
    """

    #: Messages taken by pop, by their visibility timeout in whole seconds: a sample, since
    #: counting each would cost too much. If all timeouts are equal and none is extended, the
    #: oldest lease has run ``timeout - stats.lease_ends_in`` seconds.
    timeouts: Mapping[int, int] = field(default_factory=dict)
    #: How many of ``dead`` are rows that a Spark pipeline rejected.
    dead_rows: int = 0


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One inconsistency: what, at which lease key or Redis key, and whether it was repaired."""

    problem: str
    key: str
    repaired: bool


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of an audit. ``findings`` is empty for a sound queue."""

    checked: int
    findings: tuple[AuditFinding, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing was found, or everything found was repaired."""
        return all(finding.repaired for finding in self.findings)
