"""Stage rows in tasks, and commit them from the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.config import check_integer
from ackq.core.call import call, raise_for_type
from ackq.core.chunks import chunked, end_of_chunk
from ackq.core.effects import Operation, Request
from ackq.core.names import DELAYED_LIST, MAX_NAME
from ackq.errors import ConfigurationError, StagingLost
from ackq.staging.keys import Staged, StagingKeys

#: Most rows, and bytes of rows, in one call: Redis serves no other client meanwhile.
CHUNK_ROWS = 2000
CHUNK_BYTES = 1024 * 1024
#: Rows in the first call for a list. Only this call is a script, and 2,000 arguments cost 7 ms.
FIRST_ROWS = 16
#: Milliseconds until uncommitted rows expire: a day.
LIFETIME_MS = 86_400_000
#: Most lists in one commit; lists of more tasks are merged first.
MAX_LISTS = 1000
#: Most rows that one call merges.
MERGED_ROWS = 2000
#: Most lists that one call drops. Redis frees a list in the background only if it has more than
#: 64 nodes, and to free a row of 0.9 MiB at once takes up to 0.1 ms.
DROPPED_LISTS = 50
#: The greatest integer that is exact in a script.
LATEST_BATCH = 2**53 - 1

_FORBIDDEN = frozenset("*?[]\\{}")

#: Moves a part of a committed list into its queue or topic; returns whether rows are left.
Mover = Callable[[bytes], Operation[bool]]
#: A row with the time when it becomes ready, in µs since the epoch.
Delayed = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class StagingSpec:
    """One writer's staging for one queue, topic or delay queue."""

    what: str  #: its name in errors, such as "queue 'jobs'"
    keys: StagingKeys
    writer: str

    def __post_init__(self) -> None:
        """Check the writer's name, which becomes part of keys.

        Raises:
            ConfigurationError: the name is invalid.
        """
        if not _can_be_in_a_key(self.writer, _FORBIDDEN):
            raise ConfigurationError(
                f"a writer's name is 1 to {MAX_NAME} bytes of printable text without any of"
                f" *?[]\\{{}}, not {self.writer!r}"
            )

    def raise_for_reply(self, error: ResponseError) -> Operation[NoReturn]:
        """Raise `KeyTypeError` if a key has another type, else ``error`` itself."""
        return raise_for_type(self.what, self.keys.types(), error)


def _can_be_in_a_key(name: str, forbidden: frozenset[str]) -> bool:
    usable = isinstance(name, str) and name.isprintable() and not set(name) & forbidden
    return usable and 1 <= len(name.encode()) <= MAX_NAME


def _check_task(task: str) -> None:
    # With a colon, or as the suffix of delayed lists, it could collide with another list's name.
    if not _can_be_in_a_key(task, _FORBIDDEN | {":"}) or task == DELAYED_LIST[1:]:
        raise ConfigurationError(
            f"a task's name is 1 to {MAX_NAME} bytes of printable text without any of"
            f" :*?[]\\{{}}, and not {DELAYED_LIST[1:]!r}: {task!r} cannot be one"
        )


def stage(
    spec: StagingSpec,
    batch: int,
    staged: Staged,
    bodies: Sequence[bytes],
    delayed: Sequence[Delayed],
) -> Operation[None]:
    """Stage rows of a task; see `ackq.queue.Staging.stage`."""
    check_integer(batch, "batch", 0, LATEST_BATCH)
    _check_task(staged.task)
    index = spec.keys.index(spec.writer, batch)
    name = spec.keys.list(spec.writer, batch, staged)
    for chunk in _chunks(bodies, staged.rows == 0):
        staged.rows = yield from _add(spec, index, name, staged.rows, chunk)
    name = spec.keys.delayed(spec.writer, batch, staged)
    for chunk in _chunks([b"%d:%b" % row for row in delayed], staged.delayed == 0):
        staged.delayed = yield from _add(spec, index, name, staged.delayed, chunk)


def rename(spec: StagingSpec, batch: int, staged: Staged, task: str) -> Operation[Staged]:
    """Give the lists of a task another name; see `ackq.queue.Staging.rename`."""
    _check_task(task)
    renamed, keys = replace(staged, task=task), spec.keys
    for rows, name in ((staged.rows, keys.list), (staged.delayed, keys.delayed)):
        if rows:
            old, new = (name(spec.writer, batch, each) for each in (staged, renamed))
            yield from _rename(spec, old, new)
            # A list that is too short is noticed by the next call for it, or by the commit.
            yield from call(spec, Request((b"LTRIM", new, -rows, -1), resend=True))
    return renamed


def _rename(spec: StagingSpec, old: bytes, new: bytes) -> Operation[None]:
    try:
        yield from call(spec, Request((b"RENAME", old, new), resend=True))
    except ResponseError as error:
        if "no such key" not in str(error):  # an earlier attempt has renamed it
            raise


def _add(
    spec: StagingSpec, index: bytes, name: bytes, before: int, chunk: Sequence[bytes]
) -> Operation[int]:
    """Push onto a list with ``before`` rows, and return how many it has then."""
    if before == 0:
        script = scripts.load("staging/stage")
        request = Request((2, name, index, LIFETIME_MS, *chunk), script=script)
    else:
        request = Request((b"LPUSHX", name, *chunk))
    count: int = yield from call(spec, request)
    if count != before + len(chunk):
        raise StagingLost(
            f"{spec.what}: a task staged {before + len(chunk)} rows, but its list"
            f" {name.decode()!r} holds {count}: it was aborted, or took longer than a day."
            " Nothing of it was committed: run the task again"
        )
    return count


def commit(spec: StagingSpec, batch: int, tasks: Iterable[Staged], move: Mover) -> Operation[int]:
    """Commit staged rows; see `ackq.queue.Staging.commit`."""
    check_integer(batch, "batch", 0, LATEST_BATCH)
    yield from finish(spec, move)
    ready, delayed = _lists(spec, batch, tasks)
    lists = ready | delayed
    if len(lists) > MAX_LISTS:
        # A batch that is committed already must not be merged again: its lists are gone.
        known = yield from _is_known(spec, batch)
        lists = {} if known else (yield from _merged(spec, ready, delayed))
    keys, names = spec.keys, list(lists)
    request = Request(
        (
            4 + len(names),
            keys.commits,
            keys.held,
            keys.heldrows,
            keys.record,
            *names,
            spec.writer,
            batch,
            *lists.values(),
        ),
        script=scripts.load("staging/commit"),
        resend=True,  # the marker makes a repeat harmless
    )
    status, value = yield from call(spec, request)
    if status == b"lost":
        raise StagingLost(
            f"{spec.what}: the list {names[value - 1].decode()!r} does not hold what its task"
            f" staged: it was aborted, or batch {batch} took longer than a day. Nothing of the"
            " batch was committed: run it again"
        )
    # After "known", this batch may be the committed one, if its first reply was lost.
    yield from _move_all(names, move)
    yield from abort(spec, batch)
    return int(value) if status == b"ok" else 0


def finish(spec: StagingSpec, move: Mover) -> Operation[int]:
    """Move in all committed rows that have not arrived; return how many lists there were."""
    names: list[bytes] = yield from call(spec, committed_lists(spec.keys))
    yield from _move_all(names, move)
    return len(names)


def committed_lists(keys: StagingKeys) -> Request:
    """Return the request for the names of committed lists that have not arrived."""
    return Request((b"ZRANGEBYSCORE", keys.held, 0, 0, b"LIMIT", 0, MAX_LISTS), resend=True)


def abort(spec: StagingSpec, batch: int) -> Operation[int]:
    """Delete uncommitted rows; see `ackq.queue.Staging.abort`."""
    index = spec.keys.index(spec.writer, batch)
    dropped = 0
    while True:
        look = Request((b"SRANDMEMBER", index, DROPPED_LISTS), resend=True)
        names = yield from call(spec, look)
        if not names:
            return dropped
        dropped += yield from _drop(spec, index, names)


def discard(spec: StagingSpec, batch: int, staged: Staged) -> Operation[None]:
    """Delete the rows of one task; see `ackq.queue.Staging.discard`."""
    keys = spec.keys
    names = (keys.list(spec.writer, batch, staged), keys.delayed(spec.writer, batch, staged))
    yield from _drop(spec, keys.index(spec.writer, batch), names)


def _drop(spec: StagingSpec, index: bytes, names: Sequence[bytes]) -> Operation[int]:
    """Delete those lists of a batch's ``index`` that are not committed."""
    request = Request(
        (2 + len(names), spec.keys.held, index, *names),
        script=scripts.load("staging/drop"),
        resend=True,
    )
    dropped: int = yield from call(spec, request)
    return dropped


def committed(spec: StagingSpec) -> Operation[int | None]:
    """Read the marker; see `ackq.queue.Staging.committed`."""
    request = Request((b"HGET", spec.keys.commits, spec.writer), resend=True)
    marker: bytes | None = yield from call(spec, request)
    return None if marker is None else int(marker)


def _is_known(spec: StagingSpec, batch: int) -> Operation[bool]:
    marker = yield from committed(spec)
    return marker is not None and marker >= batch


def forget(spec: StagingSpec) -> Operation[None]:
    """Delete the marker; see `ackq.queue.Staging.forget`."""
    yield from call(spec, Request((b"HDEL", spec.keys.commits, spec.writer), resend=True))


def now() -> Operation[int]:
    """Read the server's time in µs."""
    seconds, microseconds = yield Request((b"TIME",), resend=True)
    return int(seconds) * 1_000_000 + int(microseconds)


_Rows = dict[bytes, int]


def _lists(spec: StagingSpec, batch: int, tasks: Iterable[Staged]) -> tuple[_Rows, _Rows]:
    """Return the non-empty lists of the tasks with their row counts: ready, and delayed."""
    keys, tasks = spec.keys, list(tasks)
    ready = {keys.list(spec.writer, batch, task): task.rows for task in tasks}
    delayed = {keys.delayed(spec.writer, batch, task): task.delayed for task in tasks}
    return _filled(ready), _filled(delayed)


def _filled(lists: _Rows) -> _Rows:
    return {name: rows for name, rows in lists.items() if rows}


def _merged(spec: StagingSpec, *kinds: _Rows) -> Operation[_Rows]:
    """Merge lists, each kind into its part of `MAX_LISTS`, and return them."""
    merged: _Rows = {}
    for lists in kinds:
        names = list(lists)
        size = -(-len(names) * len(kinds) // MAX_LISTS) or 1  # lists per group, rounded up
        for first in range(0, len(names), size):
            into, *others = names[first : first + size]
            for name in others:
                yield from _merge(spec, name, into)
            merged[into] = sum(lists[name] for name in (into, *others))
    return merged


def _merge(spec: StagingSpec, name: bytes, into: bytes) -> Operation[None]:
    left = 1
    while left:
        request = Request(
            (2, name, into, MERGED_ROWS), script=scripts.load("staging/merge"), resend=True
        )
        left = yield from call(spec, request)
        if left < 0:
            raise StagingLost(
                f"{spec.what}: the list {into.decode()!r} is gone: its batch was aborted, or took"
                " longer than a day. Nothing of it was committed: run it again"
            )


def _move_all(names: Iterable[bytes], move: Mover) -> Operation[None]:
    for name in names:
        while (yield from move(name)):
            pass


def _chunks(rows: Sequence[bytes], begins: bool) -> Iterator[Sequence[bytes]]:
    """Yield rows in chunks. The first chunk of a new list is shorter: a script stores it."""
    sizes = list(map(len, rows))
    first = end_of_chunk(sizes, 0, FIRST_ROWS, CHUNK_BYTES) if begins and rows else 0
    if first:
        yield rows[:first]
    yield from chunked(rows[first:], sizes[first:], CHUNK_ROWS, CHUNK_BYTES)
