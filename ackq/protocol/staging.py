"""Rows that become a queue's with a commit: staged by tasks, made visible by the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.config import check_integer
from ackq.errors import ConfigurationError, StagingLost
from ackq.keys import LATER, NAME_LIMIT, STAGED, STAGING
from ackq.protocol import held
from ackq.protocol.errors import explain_types
from ackq.protocol.spec import QueueSpec
from ackq.protocol.steps import Arg, Request, Steps

#: Rows, and bytes of them, that one call stages at most: Redis serves nobody else meanwhile.
CHUNK_ROWS = 2000
CHUNK_BYTES = 1024 * 1024
#: Rows that begin a list. Only this call is a script, where 2,000 arguments cost 7 ms.
FIRST_ROWS = 16
#: Milliseconds that rows wait for their commit: a day.
LIFETIME_MS = 86_400_000
#: Lists that one commit names at most; those of more tasks are merged before.
MOST_LISTS = 1000
#: Rows that one call merges, and lists that one call drops, at most.
MERGED_ROWS = 2000
DROPPED_LISTS = 500
#: The greatest number that a script reads exactly.
LATEST_BATCH = 2**53 - 1

_FORBIDDEN = frozenset("*?[]\\{}")

#: Moves a part of a committed list to where it belongs; returns whether something is left.
Mover = Callable[[bytes], Steps[bool]]
#: A row with the time when it becomes ready, in µs since the epoch.
Delayed = tuple[int, bytes]


@dataclass(slots=True)
class Staged:
    """What an attempt of a task has staged so far under one name; the commit takes it.

    ``task`` is a name that no other attempt has, so that what a retried or a speculative one
    staged is told apart.
    """

    task: str
    rows: int = 0
    delayed: int = 0


@dataclass(frozen=True, slots=True)
class StagingKeys:
    """The keys of what is staged, in the slot of the queue that it is for."""

    commits: bytes
    held: bytes
    heldrows: bytes
    _staged: bytes = field(repr=False)
    _staging: bytes = field(repr=False)

    @classmethod
    def of_queue(cls, name: str) -> StagingKeys:
        """Return the keys beside a list queue; ``name`` was checked."""
        parts = ("COMMITS", "HELD", "HELDROWS", STAGED, STAGING)
        return cls(*((name + part).encode() for part in parts))

    @classmethod
    def of_topic(cls, name: str) -> StagingKeys:
        """Return the keys beside a topic, or beside a delay queue; ``name`` was checked."""
        parts = ("commits", "held", "heldrows", "staged:", "staging:")
        return cls(*(f"{name}:{part}".encode() for part in parts))

    def list(self, writer: str, batch: int, staged: Staged) -> bytes:
        """Return the list of a task's rows."""
        return self._staged + f"{writer}:{batch}:{staged.task}".encode()

    def delayed(self, writer: str, batch: int, staged: Staged) -> bytes:
        """Return the list of a task's rows that become ready later."""
        return self.list(writer, batch, staged) + LATER.encode()

    def index(self, writer: str, batch: int) -> bytes:
        """Return the set of the names of a batch's lists."""
        return self._staging + f"{writer}:{batch}".encode()

    def types(self) -> dict[bytes, str]:
        """Return the type of each key that all writers share."""
        return {self.commits: "hash", self.held: "zset", self.heldrows: "hash"}


@dataclass(frozen=True, slots=True)
class StagingSpec:
    """What one writer stages for one queue, topic or delay queue."""

    what: str  #: as errors call it, such as "queue 'jobs'"
    keys: StagingKeys
    writer: str

    def __post_init__(self) -> None:
        """Check the writer's name, which becomes a part of keys.

        Raises:
            ConfigurationError: it cannot be one.
        """
        writer = self.writer
        usable = (
            isinstance(writer, str) and writer.isprintable() and not set(writer) & set("*?[]\\{}")
        )
        if not usable or not 1 <= len(writer.encode()) <= NAME_LIMIT:
            raise ConfigurationError(
                f"a writer's name is 1 to {NAME_LIMIT} bytes of printable text without any of"
                f" *?[]\\{{}}, not {writer!r}"
            )

    def explain(self, error: ResponseError) -> Steps[NoReturn]:
        """Raise what ``error`` means: `KeyTypeError` for a key of another type, else itself."""
        return explain_types(self.what, self.keys.types(), error)


def stage(
    spec: StagingSpec,
    batch: int,
    staged: Staged,
    bodies: Sequence[bytes],
    delayed: Sequence[Delayed],
) -> Steps[None]:
    """Add rows to those of a task; see `ackq.sync.staging.Staging.stage`."""
    check_integer(batch, "batch", 0, LATEST_BATCH)
    index = spec.keys.index(spec.writer, batch)
    name = spec.keys.list(spec.writer, batch, staged)
    for chunk in _chunks(bodies, staged.rows == 0):
        staged.rows = yield from _add(spec, index, name, staged.rows, chunk)
    name = spec.keys.delayed(spec.writer, batch, staged)
    for chunk in _chunks([b"%d:%b" % row for row in delayed], staged.delayed == 0):
        staged.delayed = yield from _add(spec, index, name, staged.delayed, chunk)


def _add(
    spec: StagingSpec, index: bytes, name: bytes, before: int, chunk: list[Arg]
) -> Steps[int]:
    """Push onto a list that holds ``before`` rows, and return how many it holds then."""
    if before == 0:
        script = scripts.load("staging/stage")
        request = Request((2, name, index, LIFETIME_MS, *chunk), script=script)
    else:
        request = Request((b"LPUSHX", name, *chunk))
    try:
        count: int = yield request
    except ResponseError as error:
        yield from spec.explain(error)
    if count != before + len(chunk):
        raise StagingLost(
            f"{spec.what}: a task staged {before + len(chunk)} rows, but its list"
            f" {name.decode()!r} holds {count}: it was aborted, or took longer than a day."
            " Nothing of it was committed: run the task again"
        )
    return count


def commit(spec: StagingSpec, batch: int, tasks: Iterable[Staged], move: Mover) -> Steps[int]:
    """Make staged rows the queue's; see `ackq.sync.staging.Staging.commit`."""
    check_integer(batch, "batch", 0, LATEST_BATCH)
    yield from finish(spec, move)
    lists = yield from _merged(spec, *_lists(spec, batch, tasks))
    keys, names = spec.keys, list(lists)
    request = Request(
        (3 + len(names), keys.commits, keys.held, keys.heldrows, *names,
         spec.writer, batch, *lists.values()),
        script=scripts.load("staging/commit"),
        resend=True,  # the marker makes a second application harmless
    )  # fmt: skip
    try:
        status, value = yield request
    except ResponseError as error:
        yield from spec.explain(error)
    if status == b"lost":
        raise StagingLost(
            f"{spec.what}: the list {names[value - 1].decode()!r} does not hold what its task"
            f" staged: it was aborted, or batch {batch} took longer than a day. Nothing of the"
            " batch was committed: run it again"
        )
    # After "known" they may be committed all the same, where the first reply was lost.
    yield from _move_all(names, move)
    yield from abort(spec, batch)
    return int(value) if status == b"ok" else 0


def finish(spec: StagingSpec, move: Mover) -> Steps[int]:
    """Move in what is committed and not in the queue yet; return how many lists that were."""
    names: list[bytes] = yield Request(
        (b"ZRANGEBYSCORE", spec.keys.held, 0, 0, b"LIMIT", 0, MOST_LISTS), resend=True
    )
    yield from _move_all(names, move)
    return len(names)


def abort(spec: StagingSpec, batch: int) -> Steps[int]:
    """Delete what is staged and not committed; see `ackq.sync.staging.Staging.abort`."""
    index = spec.keys.index(spec.writer, batch)
    dropped = 0
    while True:
        names = yield Request((b"SRANDMEMBER", index, DROPPED_LISTS), resend=True)
        if not names:
            return dropped
        dropped += yield Request(
            (2 + len(names), spec.keys.held, index, *names),
            script=scripts.load("staging/drop"),
            resend=True,
        )


def discard(spec: StagingSpec, batch: int, staged: Staged) -> Steps[None]:
    """Delete what one task staged; see `ackq.sync.staging.Staging.discard`."""
    keys = spec.keys
    names = (keys.list(spec.writer, batch, staged), keys.delayed(spec.writer, batch, staged))
    yield Request(
        (4, keys.held, keys.index(spec.writer, batch), *names),
        script=scripts.load("staging/drop"),
        resend=True,
    )


def committed(spec: StagingSpec) -> Steps[int | None]:
    """Read the marker; see `ackq.sync.staging.Staging.committed`."""
    marker: bytes | None = yield Request((b"HGET", spec.keys.commits, spec.writer), resend=True)
    return None if marker is None else int(marker)


def forget(spec: StagingSpec) -> Steps[None]:
    """Delete the marker; see `ackq.sync.staging.Staging.forget`."""
    yield Request((b"HDEL", spec.keys.commits, spec.writer), resend=True)


def now(_: StagingSpec) -> Steps[int]:
    """Read the server's time in µs."""
    seconds, microseconds = yield Request((b"TIME",), resend=True)
    return int(seconds) * 1_000_000 + int(microseconds)


def into_queue(spec: QueueSpec, name: bytes) -> Steps[bool]:
    """Move a bounded part of a list into its list queue: the `Mover` of one."""
    _, left = yield from held.give_back_some(spec, name)
    return left > 0


_Rows = dict[bytes, int]


def _lists(spec: StagingSpec, batch: int, tasks: Iterable[Staged]) -> tuple[_Rows, _Rows]:
    """Return the lists of tasks that staged anything, with their rows: ready, and delayed."""
    keys, tasks = spec.keys, list(tasks)
    ready = {keys.list(spec.writer, batch, each): each.rows for each in tasks}
    delayed = {keys.delayed(spec.writer, batch, each): each.delayed for each in tasks}
    return _filled(ready), _filled(delayed)


def _filled(lists: _Rows) -> _Rows:
    return {name: rows for name, rows in lists.items() if rows}


def _merged(spec: StagingSpec, *kinds: _Rows) -> Steps[_Rows]:
    """Return at most `MOST_LISTS` lists with the rows of all of them."""
    merged: _Rows = {}
    for lists in kinds:
        names = list(lists)
        size = -(-len(names) * len(kinds) // MOST_LISTS) or 1  # of a group, rounded up
        for first in range(0, len(names), size):
            into, *others = names[first : first + size]
            for name in others:
                yield from _merge(spec, name, into)
            merged[into] = sum(lists[name] for name in (into, *others))
    return merged


def _merge(spec: StagingSpec, name: bytes, into: bytes) -> Steps[None]:
    left = 1
    while left:
        left = yield Request(
            (2, name, into, MERGED_ROWS), script=scripts.load("staging/merge"), resend=True
        )
        if left < 0:
            raise StagingLost(
                f"{spec.what}: the list {into.decode()!r} is gone: its batch was aborted, or took"
                " longer than a day. Nothing of it was committed: run it again"
            )


def _move_all(names: Iterable[bytes], move: Mover) -> Steps[None]:
    for name in names:
        while (yield from move(name)):
            pass


def _chunks(rows: Sequence[bytes], begins: bool) -> Iterator[list[Arg]]:
    chunk: list[Arg] = []
    size, most = 0, FIRST_ROWS if begins else CHUNK_ROWS
    for row in rows:
        if chunk and (len(chunk) == most or size + len(row) > CHUNK_BYTES):
            yield chunk
            chunk, size, most = [], 0, CHUNK_ROWS
        chunk.append(row)
        size += len(row)
    if chunk:
        yield chunk
