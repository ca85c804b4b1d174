"""The messages and batches that a topic's readers receive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from ackq.core.json_values import from_json


@dataclass(frozen=True, slots=True)
class TopicMessage:
    """One message: its index in the topic, from 1, and the bytes that were published."""

    index: int
    body: bytes

    def json(self) -> Any:
        """Return the body parsed as JSON by orjson, which turns integers over 64 bits into floats.

        Raises:
            orjson.JSONDecodeError: the body is not JSON (a ValueError).
        """
        return from_json(self.body, str(self.index))

    def __repr__(self) -> str:
        # A body may contain secrets, and this text may be logged, so show only the size.
        return f"<TopicMessage {self.index}, {len(self.body)} bytes>"


class Batch(Sequence[TopicMessage]):
    """The messages of one range of indexes, in order. Commit it when its work is done.

    A batch is true if there is a range to commit, even one whose messages are all gone, and false
    if there was nothing to read.

    Attributes:
        topic: name of the topic.
        consumer: the consumer id that read it.
        first: lowest index of the range; 0 in an empty batch.
        last: highest index of the range; 0 in an empty batch.
        missing: the indexes at the start of the range whose messages expired or were trimmed
            before they were read; only with ``on_trimmed="report"``.
        receipt: identifies the lease; empty if the read has already committed the range.
        lease_expires_at: when the lease ends, in seconds since the epoch by the server's clock.
            Until then the range is yours alone. None without a lease.
        lease_lost: True once a commit, release or extension of this batch was refused.
    """

    __slots__ = (
        "_messages",
        "consumer",
        "first",
        "last",
        "lease_expires_at",
        "lease_lost",
        "missing",
        "receipt",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        consumer: str,
        first: int = 0,
        last: int = 0,
        bodies: Sequence[bytes] = (),
        receipt: bytes = b"",
        deadline: float | None = None,
    ) -> None:
        self.topic = topic
        self.consumer = consumer
        self.first = first
        self.last = last
        self.receipt = receipt
        self.lease_expires_at = deadline
        self.lease_lost = False
        read_from = last - len(bodies) + 1
        self.missing = range(first, read_from) if last else range(0)
        self._messages = [TopicMessage(read_from + at, body) for at, body in enumerate(bodies)]

    @overload
    def __getitem__(self, at: int) -> TopicMessage: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[TopicMessage]: ...
    def __getitem__(self, at: int | slice) -> TopicMessage | Sequence[TopicMessage]:
        return self._messages[at]

    def __iter__(self) -> Iterator[TopicMessage]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __bool__(self) -> bool:
        return self.last > 0

    def __repr__(self) -> str:
        if not self:
            return f"<Batch of {self.topic!r} for {self.consumer!r}, empty>"
        return f"<Batch of {self.topic!r} for {self.consumer!r}, {self.first} to {self.last}>"
