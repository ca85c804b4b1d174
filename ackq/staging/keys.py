"""The keys of staged rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ackq.core.names import DELAYED_LIST, STAGED, STAGING


@dataclass(slots=True)
class Staged:
    """What one attempt of a task has staged so far. Pass it to the commit.

    ``task`` is a name unique to the attempt, so that the rows of retried and speculative attempts
    stay separate: 1 to 200 bytes of printable text without any of ``:*?[]\\{}``.
    """

    task: str
    rows: int = 0
    delayed: int = 0


@dataclass(frozen=True, slots=True)
class StagingKeys:
    """The keys of staged rows, in the slot of the queue that they are for."""

    commits: bytes
    held: bytes
    heldrows: bytes
    #: The settings of a list queue; of other queues it never exists.
    record: bytes
    _staged: bytes = field(repr=False)
    _staging: bytes = field(repr=False)
    #: Suffix of a list's name, so that any process can move its rows as their writer would.
    _settings: bytes = field(default=b"", repr=False)

    @classmethod
    def of_queue(cls, name: str) -> StagingKeys:
        """Return the keys for a list queue; ``name`` was checked."""
        parts = ("COMMITS", "HELD", "HELDROWS", "RECORD", STAGED, STAGING)
        return cls(*((name + part).encode() for part in parts))

    @classmethod
    def of_topic(cls, name: str, settings: str = "") -> StagingKeys:
        """Return the keys for a topic or a delay queue; ``name`` was checked.

        Writers pass the settings for moving their rows: a topic's retention or the number of a
        delay queue's partitions. See `settings_suffix` in `ackq.topic.staged_rows` and
        `ackq.delay.staged_rows`.
        """
        parts = ("commits", "held", "heldrows", "record", "staged:", "staging:")
        keys = cls(*(f"{name}:{part}".encode() for part in parts))
        return replace(keys, _settings=f":{settings}:".encode()) if settings else keys

    def list(self, writer: str, batch: int, staged: Staged) -> bytes:
        """Return the key of the list of a task's rows."""
        return self._staged + f"{writer}:{batch}:{staged.task}".encode() + self._settings

    def delayed(self, writer: str, batch: int, staged: Staged) -> bytes:
        """Return the key of the list of a task's delayed rows."""
        return self.list(writer, batch, staged) + DELAYED_LIST.encode()

    def index(self, writer: str, batch: int) -> bytes:
        """Return the key of the set with the names of a batch's lists."""
        return self._staging + f"{writer}:{batch}".encode()

    def types(self) -> dict[bytes, str]:
        """Return the type of each key that all writers share."""
        return {self.commits: "hash", self.held: "zset", self.heldrows: "hash"}


def has_settings(name: bytes) -> bool:
    """Return whether the name of a list contains the settings for moving its rows.

    A task's name is never empty, so no other list's name ends in a colon.
    """
    return name.endswith(b":")
