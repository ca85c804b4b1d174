"""What a consumer holds, and what an inspection shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ackq.core.ids import text_of_key


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
        # Kept by `ackq.core.fencing`: settles sent that may have been applied, and the verb of
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
