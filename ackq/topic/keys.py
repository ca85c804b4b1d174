"""The names of a topic's keys. The first three kinds are those of the article "Building a
Message Queue in Redis"."""

from __future__ import annotations

from dataclasses import dataclass

from ackq.core.names import MAX_NAME, check_name
from ackq.errors import ConfigurationError, QueueNameError

#: What may follow a topic's name and a colon.
SEGMENTS = (
    "messages",
    "nextIndex",
    "consumers",
    "firstIndex",
    "wake",
    "dedup",
    "leases",
    "ranges",
    "staged",
    "staging",
    "commits",
    "held",
    "heldrows",
)


@dataclass(frozen=True, slots=True)
class ConsumerKeys:
    """The keys of one consumer id. All but ``place`` exist only while a range is leased."""

    place: bytes
    leases: bytes
    ranges: bytes

    def types(self) -> dict[bytes, str]:
        """Return the type of each key."""
        return {self.place: "string", self.leases: "zset", self.ranges: "zset"}


@dataclass(frozen=True, slots=True)
class TopicKeys:
    """The keys of one topic."""

    newest: bytes
    first: bytes
    wake: bytes
    _name: bytes
    _messages: bytes

    @classmethod
    def of(cls, name: str) -> TopicKeys:
        """Return the keys of topic ``name``.

        Raises:
            QueueNameError: the name is not valid for a queue, or has one of `SEGMENTS` after a
                colon, so its keys would be another topic's.
        """
        check_name(name)
        for segment in name.split(":")[1:]:
            if segment in SEGMENTS:
                raise QueueNameError(
                    f"topic name {name!r} contains ':{segment}', so it would collide with the"
                    " keys of another topic; choose another name"
                )
        raw = name.encode()
        return cls(
            raw + b":nextIndex", raw + b":firstIndex", raw + b":wake", raw, raw + b":messages:"
        )

    def messages(self, after: int, count: int) -> list[bytes]:
        """Return the keys of the ``count`` messages that follow index ``after``."""
        prefix = self._messages
        return [prefix + b"%d" % index for index in range(after + 1, after + 1 + count)]

    def dedup(self, marker: str) -> bytes:
        """Return the key of an idempotent publish's marker."""
        return self._name + b":dedup:" + marker.encode()

    def consumer(self, consumer: str) -> ConsumerKeys:
        """Return the keys of a consumer id.

        Raises:
            ConfigurationError: empty, over 200 bytes, or with control characters.
        """
        usable = isinstance(consumer, str) and consumer.isprintable()
        if not usable or not 1 <= len(consumer.encode()) <= MAX_NAME:
            raise ConfigurationError(
                f"a consumer id is 1 to {MAX_NAME} bytes of printable text, not {consumer!r}"
            )
        raw = consumer.encode()
        return ConsumerKeys(
            self._name + b":consumers:" + raw,
            self._name + b":leases:" + raw,
            self._name + b":ranges:" + raw,
        )

    def types(self) -> dict[bytes, str]:
        """Return the type of each key that all consumers share."""
        return {self.newest: "string", self.first: "string", self.wake: "stream"}
