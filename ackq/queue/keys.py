"""The names of a queue's keys, and which names a queue may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ackq import scripts
from ackq.config import PopFrom, QueueConfig
from ackq.core.effects import Arg
from ackq.core.names import (
    CLAIM,
    CLAIMS,
    DEDUP,
    HISTORY,
    LOOKS,
    RATELIMIT,
    SCHEDULES,
    SUFFIXES,
    TAKEN,
    TICKS,
    WORKERS_DOING,
    WORKERS_ORDERS,
    WORKERS_SEEN,
    check_name,
)
from ackq.core.waits import seconds_of
from ackq.setting_types import check_types

#: A former shard of a sharded queue with groups is closed to producers, and sealed once it has only
#: dead letters. Its name is then that of a string; once it is sealed, so is that of CONTEXT, in
#: whose place a key is passed that does not exist.
Stage = Literal["open", "closed", "sealed"]
#: The suffix of the list of a closed shard.
CLOSED = b"GROUPS:CLOSED"
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
    record: bytes
    counters: bytes
    heldrows: bytes
    commits: bytes
    errors: bytes
    notes: bytes
    #: The end of ``ready`` that consumers pop.
    pop_from: PopFrom = "right"
    #: Whether the queue has groups or a limit, which are recorded.
    grouped: bool = False
    stage: Stage = "open"

    @classmethod
    def of(
        cls, name: str, pop_from: PopFrom = "right", grouped: bool = False, stage: Stage = "open"
    ) -> QueueKeys:
        """Return the keys of queue ``name``.

        Raises:
            QueueNameError: the name cannot be used; see `check_name`.
        """
        check_name(name)
        check_types(QueueConfig, {"pop_from": pop_from})
        base = name.encode()
        named = {field: base + suffix for field, suffix in _FIELDS}
        ready = base if stage == "open" else base + CLOSED
        if stage == "sealed":
            named["context"] = ready + b"CONTEXT"
        return cls(ready=ready, **named, pop_from=pop_from, grouped=grouped, stage=stage)

    @property
    def base(self) -> bytes:
        """The list that producers push to. All other names begin with its name."""
        return self.ready if self.stage == "open" else self.ready.removesuffix(CLOSED)

    @property
    def known(self) -> str:
        """What this client knows of the record, as scripts take it: groups, or an end."""
        return "groups" if self.grouped else self.pop_from

    def wait(self, seconds: float) -> tuple[Arg, ...]:
        """Return the command that waits for a push, and moves the message to the hand-off list."""
        source = b"LEFT" if self.pop_from == "left" else b"RIGHT"
        return (b"BLMOVE", self.ready, self.handoff, source, b"LEFT", seconds_of(seconds))

    def wait_for_room(self, seconds: float) -> tuple[Arg, ...]:
        """Return the command that waits until the queue has fewer leases than permitted."""
        return (b"BLPOP", self.base + b"GROUPS:ROOM", seconds_of(seconds))

    def dedup(self, marker: str) -> bytes:
        """Return the key of an idempotent push's marker."""
        return self.base + (DEDUP + marker).encode()

    def claims(self, group: str) -> bytes:
        """Return the key of the record of a group of claims."""
        return self.base + (CLAIMS + group).encode()

    def claim(self, group: str, batch: int) -> bytes:
        """Return the key of one claim's messages."""
        return self.base + f"{CLAIM}{group}:{batch}".encode()

    @property
    def rate(self) -> bytes:
        """The key of the rate limit that all workers share."""
        return self.base + RATELIMIT.encode()

    @property
    def looks(self) -> bytes:
        """The key from which the consumers that wait are estimated. It expires."""
        return self.base + LOOKS.encode()

    def taken(self, taker: str) -> bytes:
        """Return the key of the note of a supervised process's latest take. It expires."""
        return self.base + (TAKEN + taker).encode()

    @property
    def history(self) -> bytes:
        """The key of what happened to the queue. It expires."""
        return self.base + f"{HISTORY}list".encode()

    @property
    def ticks(self) -> bytes:
        """The key of the ticks of schedules."""
        return self.base + TICKS.encode()

    @property
    def schedules(self) -> bytes:
        """The key of the stored schedules."""
        return self.base + SCHEDULES.encode()

    @property
    def workers(self) -> tuple[bytes, bytes, bytes]:
        """The keys of the list of workers: when each was seen, its record, and its order."""
        names = (WORKERS_SEEN, WORKERS_DOING, WORKERS_ORDERS)
        return tuple(self.base + name.encode() for name in names)  # type: ignore[return-value]

    def passed(self, script: str, *own: bytes) -> tuple[Arg, ...]:
        """Return the number of keys that a script gets, and the keys: its header names them.

        Args:
            script: its name.
            own: keys of which a queue has several, such as the list of a claim, in their order.
                Those that the header does not count come last.
        """
        keys = self._of(script, own)
        return (len(keys), *keys)

    def _of(self, script: str, own: Sequence[bytes] = ()) -> list[bytes]:
        loaded, others = scripts.load(script), iter(own)
        keys = [
            next(others) if "<" in name else self._named(name)
            for name, _ in loaded.keys
            if own or "<" not in name
        ]
        if self.grouped:
            keys += [self._named(name) for name, _ in loaded.group_keys]
        return [*keys, *others]

    def _named(self, name: str) -> bytes:
        suffix = name[name.index("}") + 1 :]  # behind {name} or {shard}
        if not suffix or (suffix == LOOKS and self.stage != "open"):
            # A consumer is woken by a move to the list only if LOOKS exists, but nobody waits for
            # the list of a closed shard. So LOOKS exists for it only while the list does.
            return self.ready
        if suffix == "CONTEXT":
            return self.context
        return self.base + suffix.encode()

    def types(self) -> dict[bytes, str]:
        """Return the type of every key that holds messages: those that the audit looks at."""
        audit = scripts.load("audit")
        others = audit.group_keys if self.grouped else ()
        kinds = [kind.lower() for _, kind in (*audit.keys, *others)]
        return dict(zip(self._of("audit"), kinds, strict=True))

    def all(self) -> tuple[bytes, ...]:
        """Return the keys: ``ready`` first, then the others in the order of `SUFFIXES`."""
        return (self.ready, *(getattr(self, field) for field, _ in _FIELDS))
