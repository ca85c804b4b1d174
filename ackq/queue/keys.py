"""The names of a queue's keys, and which names a queue may have."""

from __future__ import annotations

from dataclasses import dataclass

from ackq.config import PopFrom, check_pop_from
from ackq.core.effects import Arg
from ackq.core.names import (
    CLAIM,
    CLAIMS,
    DEDUP,
    HELD_LEFT,
    RATELIMIT,
    SUFFIXES,
    TICKS,
    WORKERS_DOING,
    WORKERS_ORDERS,
    WORKERS_SEEN,
    check_name,
)
from ackq.core.waiting import seconds_of

#: The fields of `QueueKeys` with the suffixes of the keys.
_FIELDS = tuple((suffix.lower(), suffix.encode()) for suffix in SUFFIXES)


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
    errors: bytes
    #: The end of ``ready`` that consumers pop.
    pop_from: PopFrom = "right"

    @classmethod
    def of(cls, name: str, pop_from: PopFrom = "right") -> QueueKeys:
        """Return the keys of queue ``name``.

        If it is popped from the left, its HELD is the record that it is, and held lists are in a
        key of their own. Thus no client that pops from the right can take messages by mistake: its
        scripts refuse a HELD of the wrong type.

        Raises:
            QueueNameError: the name cannot be used; see `check_name`.
        """
        check_name(name)
        check_pop_from(pop_from)
        ready = name.encode()
        named = {field: ready + suffix for field, suffix in _FIELDS}
        if pop_from == "left":
            named["held"] = ready + HELD_LEFT.encode()
        return cls(ready=ready, **named, pop_from=pop_from)

    @property
    def record(self) -> bytes:
        """The key whose type shows the end that is popped: a string if that is the left end."""
        return self.ready + b"HELD"

    def wait(self, seconds: float) -> tuple[Arg, ...]:
        """Return the command that waits for a push, and moves the message to the hand-off list."""
        source = b"LEFT" if self.pop_from == "left" else b"RIGHT"
        return (b"BLMOVE", self.ready, self.handoff, source, b"LEFT", seconds_of(seconds))

    @property
    def if_left(self) -> tuple[bytes, ...]:
        """The last key of a script that depends on the end; none for the right end."""
        return (self.record,) if self.pop_from == "left" else ()

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

    @property
    def workers(self) -> tuple[bytes, bytes, bytes]:
        """The keys of the list of workers: when each was seen, its record, and its order."""
        names = (WORKERS_SEEN, WORKERS_DOING, WORKERS_ORDERS)
        return tuple(self.ready + each.encode() for each in names)  # type: ignore[return-value]

    def types(self) -> dict[bytes, str]:
        """Return the type of every key that holds messages, in the order of `all`."""
        kinds = ("list", "zset", "hash", "list", "hash", "hash", "zset", "stream")
        found = dict(zip(self.all(), kinds, strict=False))
        found |= {self.held: "zset", self.heldrows: "hash", self.errors: "hash"}
        return found | dict.fromkeys(self.if_left, "string")

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
            self.errors,
        )
