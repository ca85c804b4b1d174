"""What a consumer holds, and what an inspection shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson


class Message:
    """A message under a lease: yours until ``lease_expires_at``, then anybody's.

    Attributes:
        body: the bytes that the producer pushed, unchanged.
        queue: name of the queue.
        key: the lease key: the id, or a key that ackq derived where the body has no usable id
            or a message with the same id is in flight.
        receipt: the deadline that the pop gave, in microseconds since the epoch. It stays valid
            when the lease is extended and goes stale when another consumer takes the message.
        receive_count: deliveries so far, this one included; 1 the first time.
        lease_expires_at: when the lease ends, in seconds since the epoch by the server's clock.
        lease_lost: True once a settle of this message was refused, or another consumer or an
            operator was found to have settled it.
        timed_out: True once a worker's time limit for this message has passed.
    """

    __slots__ = ("_settled", "_settles_sent", "body", "key", "lease_expires_at", "lease_lost",
                 "queue", "receipt", "receive_count", "timed_out")  # fmt: skip

    def __init__(
        self, queue: str, key: bytes, body: bytes, receipt: int, receive_count: int
    ) -> None:
        self.queue = queue
        self.key = key
        self.body = body
        self.receipt = receipt
        self.receive_count = receive_count
        self.lease_expires_at = receipt / 1_000_000
        self.lease_lost = False
        self.timed_out = False
        # Kept by `ackq.protocol.fencing`: settles sent that may have been applied, and the verb of
        # the one that was.
        self._settles_sent = 0
        self._settled = ""

    @property
    def id(self) -> str:
        """The id in the body as text; the lease key where the body has none that can be used."""
        return text_of_key(self.key, self.body)

    def json(self) -> Any:
        """Return the body parsed as JSON by orjson, which turns integers over 64 bits to floats.

        Raises:
            orjson.JSONDecodeError: the body is not JSON (a ValueError).
        """
        return orjson.loads(self.body)

    def __repr__(self) -> str:
        # Bodies may hold secrets and end up in logs: the size is enough.
        return (
            f"<Message {self.id!r} of {self.queue!r}, {len(self.body)} bytes, "
            f"receive {self.receive_count}>"
        )


@dataclass(frozen=True, slots=True)
class PeekedMessage:
    """A message as `peek` saw it, without a lease.

    ``at`` is when its lease ends (in flight) or it becomes due (delayed), in seconds since the
    epoch by the server's clock, and None on the ready list, which carries no times.
    """

    id: str
    body: bytes
    receive_count: int
    at: float | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that will not be delivered again unless it is redriven.

    ``entry`` is its place in the dead-letter stream; ``reason`` is "max receives", "too large",
    "body missing" or what `reject` was given; ``died_at`` is in seconds since the epoch.
    """

    entry: str
    id: str
    body: bytes
    reason: str
    receive_count: int
    died_at: float


@dataclass(frozen=True, slots=True)
class QueueStats:
    """How many messages are where, at one instant.

    Every message is counted once in ready, in_flight, delayed or dead. ``expired`` and ``due``
    say how many of ``ready`` came back: from a lease that ended, and from a delay; what claims
    gave back counts in ``ready`` alone.
    """

    ready: int
    in_flight: int
    delayed: int
    dead: int
    expired: int
    due: int
    paused: bool
    #: Seconds until the next lease ends or delayed message is due; None where there is neither.
    next_event_in: float | None
    #: Seconds until the first lease ends; negative: since it ended, and nobody took the message
    #: again. None where nothing is leased. Claims have leases of their own: `Queue.claims`.
    lease_ends_in: float | None = None
    #: How many of ``in_flight`` are in claims: taken by the batch, as by Spark.
    claimed: int = 0


@dataclass(frozen=True, slots=True)
class QueueCounters:
    """What was done since somebody began to watch. The counts only grow.

    They begin anew, with another ``since``, when nobody asked for longer than the window: two
    looks can be compared where ``since`` is the same, and ``at`` is how far they lie apart.
    """

    #: When this was read and when the counts began, in seconds since the epoch by the server.
    at: float
    since: float
    #: Messages that were taken, by pop and by claims.
    taken: int
    #: Messages that were acked, by pop, ack and by claims.
    acked: int
    #: How many of ``taken`` came back from a lease that had ended.
    returned: int
    #: How many were taken by pop for how many whole seconds. Where all leases are one length and
    #: none is extended, the first that ends is ``length - stats.lease_ends_in`` seconds old.
    timeouts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Claim:
    """One batch of a group: its number, and how many messages it holds."""

    batch: int
    rows: int


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim as the queue sees it.

    ``lease_ends_in`` is in seconds; negative: since it ended, and the next pop gives the messages
    back. None while they are being given back: ``rows`` counts those that still are not.
    """

    group: str
    batch: int
    rows: int
    lease_ends_in: float | None


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that does not belong: what, at which lease key or Redis key, and if mended."""

    problem: str
    key: str
    repaired: bool


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit saw. ``findings`` is empty for a sound queue."""

    checked: int
    findings: tuple[AuditFinding, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing was found, or everything that was found has been repaired."""
        return all(finding.repaired for finding in self.findings)


def text_of_key(key: bytes, body: bytes) -> str:
    """Return what a user would call the message: the id in its body, else its key.

    A derived key begins with NUL; its message may still carry an id of its own.
    """
    if key[:1] not in (b"", b"\0"):
        return key.decode(errors="replace")
    return usable_id(body) or key.lstrip(b"\0").decode(errors="replace")


def usable_id(body: bytes) -> str | None:
    """Return the id of a JSON object as its lease key, or None where it can be no key.

    It can if it is a non-empty string of at most 512 bytes that does not begin with NUL, or an
    integer below 2**53 in size, be it written as 1, 1.0 or 1e0. `natural_key` in ``pop.lua`` is
    the authority.
    """
    try:
        parsed = orjson.loads(body)
    except ValueError:
        return None
    return key_of_id(parsed.get("id")) if isinstance(parsed, dict) else None


def key_of_id(value: Any) -> str | None:
    """Return the lease key of an id, or None where it can be no key; see `usable_id`."""
    # The usual id needs no encoding to be measured.
    if type(value) is str and value.isascii() and 0 < len(value) <= 512 and value[0] != "\0":
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, str) and value and value[0] != "\0":
        try:
            return value if len(value.encode()) <= 512 else None
        except UnicodeEncodeError:
            return None
    return None
