"""The names of a queue's keys, and which names a queue may have."""

from __future__ import annotations

from dataclasses import dataclass

from ackq.core.names import (
    CLAIM,
    CLAIMS,
    DEDUP,
    RATELIMIT,
    SUFFIXES,
    TICKS,
    check_name,
)


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """Every key of one queue. All but ``ready`` exist only while they are needed."""

    ready: bytes
    backup: bytes
    context: bytes
    handoff: bytes
    receives: bytes
    extended: bytes
    delayed: bytes
    dead: bytes
    paused: bytes
    held: bytes
    counters: bytes
    heldrows: bytes
    commits: bytes

    @classmethod
    def of(cls, name: str) -> QueueKeys:
        """Return the keys of queue ``name``.

        Raises:
            QueueNameError: the name cannot be used; see `check_name`.
        """
        check_name(name)
        return cls(name.encode(), *((name + suffix).encode() for suffix in SUFFIXES))

    def dedup(self, marker: str) -> bytes:
        """Return the key of an idempotent push's marker."""
        return self.ready + (DEDUP + marker).encode()

    def claims(self, group: str) -> bytes:
        """Return the key of the record of a group of claims."""
        return self.ready + (CLAIMS + group).encode()

    def claim(self, group: str, batch: int) -> bytes:
        """Return the key of one claim's messages."""
        return self.ready + f"{CLAIM}{group}:{batch}".encode()

    @property
    def rate(self) -> bytes:
        """The key of the rate limit that all workers share."""
        return self.ready + RATELIMIT.encode()

    @property
    def ticks(self) -> bytes:
        """The key of the ticks of schedules."""
        return self.ready + TICKS.encode()

    def types(self) -> dict[bytes, str]:
        """Return the type of every key that holds messages, in the order of `all`."""
        kinds = ("list", "zset", "hash", "list", "hash", "hash", "zset", "stream")
        found = dict(zip(self.all(), kinds, strict=False))
        return found | {self.held: "zset", self.heldrows: "hash"}

    def all(self) -> tuple[bytes, ...]:
        """Return the keys: ``ready`` first, then the others in the order of `SUFFIXES`."""
        return (
            self.ready,
            self.backup,
            self.context,
            self.handoff,
            self.receives,
            self.extended,
            self.delayed,
            self.dead,
            self.paused,
            self.held,
            self.counters,
            self.heldrows,
            self.commits,
        )
