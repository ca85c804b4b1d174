"""Why messages failed: counts for each cause, of all dead letters and of deliveries to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from ackq.core.effects import Operation, Request
from ackq.core.inspection_results import DeadLetter
from ackq.core.page_size import next_size
from ackq.ops.chronicle.minutes import MAX_NAME, MINUTE, OTHERS
from ackq.ops.chronicle.store import Fields, history_key, load, update
from ackq.ops.kinds import stream_of

#: Most causes of a queue; the ones that were not seen for longest count together as `OTHERS`.
MAX_CAUSES = 100
#: Characters of a cause and of an error's text that are kept.
MAX_CAUSE, MAX_TEXT = 500, 200
#: Minutes whose counts are kept for each cause.
MINUTES = 60
#: Most dead letters that one call of `count_dead` counts, and bytes of their bodies.
MAX_COUNTED, MAX_BYTES = 1000, 8 * 1024 * 1024
#: Most dead letters that one request reads.
STEP = 250
_CAUSES, _COUNTED = b"causes", b"dead"
#: The entry before the first one of a stream.
_BEGINNING = "0-0"


@dataclass(slots=True)
class Cause:
    """What failed for one reason at one line of code, in messages of one task."""

    #: As in `ackq.DeadLetter.cause`: the error's type and place, or the reason.
    cause: str
    #: The field ``task`` of the messages; empty if they have none.
    task: str = ""
    #: Messages that became dead letters, and deliveries that failed and were repeated.
    dead: int = 0
    retried: int = 0
    #: When it was first and last seen, in seconds since the epoch.
    first: float = 0.0
    last: float = 0.0
    #: The text of the newest error, as far as it was recorded.
    text: str = ""
    #: How often it was seen in each minute of its last hour, by the minutes since the epoch.
    minutes: dict[int, int] = field(default_factory=dict)

    def see(self, at: float, text: str = "", dead: int = 0, retried: int = 0) -> None:
        """Count what was seen at a time."""
        self.include(
            Cause(
                self.cause,
                self.task,
                dead,
                retried,
                at,
                at,
                text[:MAX_TEXT],
                {int(at) // MINUTE: dead + retried},
            )
        )

    def include(self, other: Cause) -> None:
        """Add what others have counted."""
        if not self.first or other.first < self.first:
            self.first = other.first
        if other.last >= self.last:
            self.last, self.text = other.last, other.text or self.text
        self.dead += other.dead
        self.retried += other.retried
        newest = int(self.last) // MINUTE
        for minute, count in other.minutes.items():
            self.minutes[minute] = self.minutes.get(minute, 0) + count
        self.minutes = {
            minute: count for minute, count in self.minutes.items() if minute > newest - MINUTES
        }

    def within(self, now: float, minutes: int) -> int:
        """Return how often it was seen in the last minutes, the current one included."""
        newest = int(now) // MINUTE
        return sum(
            count for minute, count in self.minutes.items() if newest - minutes < minute <= newest
        )


@dataclass(frozen=True, slots=True)
class CauseTable:
    """The causes of a queue or part, the newest first."""

    causes: Sequence[Cause] = ()
    #: Whether all dead letters that were there have been counted. The newest are counted first.
    complete: bool = True


class Causes:
    """Collects causes: at most `MAX_CAUSES`."""

    def __init__(self, causes: Iterable[Cause] = ()) -> None:
        self._by_key = {(each.cause, each.task): each for each in causes}

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def of(self, cause: str, task: str) -> Cause:
        """Return the counts of a cause."""
        key = cause[:MAX_CAUSE], task[:MAX_NAME]
        return self._by_key.setdefault(key, Cause(*key))

    def include(self, others: Causes) -> None:
        """Add what others have counted."""
        for each in others.newest_first():
            self.of(each.cause, each.task).include(each)

    def newest_first(self) -> list[Cause]:
        """Return the causes; those that are too many as one."""
        causes = sorted(self._by_key.values(), key=lambda each: -each.last)
        if len(causes) <= MAX_CAUSES:
            return causes
        named = [each for each in causes if each.cause != OTHERS]
        others = Cause(OTHERS)
        for each in (*named[MAX_CAUSES - 1 :], *(each for each in causes if each.cause == OTHERS)):
            others.include(replace(each, text=""))
        return [*named[: MAX_CAUSES - 1], others]


def add(key: bytes, token: str, seen: Causes) -> Operation[bool]:
    """Add what a worker has seen; see `ackq.ops.chronicle.store.update`."""

    def change(fields: Fields) -> Fields:
        causes = Causes(_decoded(fields.get(_CAUSES, b"")))
        causes.include(seen)
        return {_CAUSES: _encoded(causes)}

    return (yield from update(key, token, (_CAUSES,), change))


def count_dead(kind: str, name: str, token: str) -> Operation[bool]:
    """Count dead letters of a queue or part that were not counted before, the newest first.

    Each is counted once, whoever counts. At most `MAX_COUNTED` in one call.

    Returns:
        Whether all are counted.

    Raises:
        ConfigurationError: a queue of this kind has no dead letters of its own.
    """
    stream, letter_of = stream_of(kind, name)
    key = history_key(kind, name)
    fields = yield from load(key, (_CAUSES, _COUNTED))
    oldest, newest = _counted(fields)
    letters: list[DeadLetter] = []
    ended = False
    if newest:
        entries, ended = yield from _read(stream, b"XRANGE", f"({newest}", "+", MAX_COUNTED)
        letters += map(letter_of, entries)
        newest = letters[-1].entry if letters else newest
    if not newest or (ended and oldest != _BEGINNING):
        start = f"({oldest}" if oldest else "+"
        room = MAX_COUNTED - len(letters)
        entries, ended = yield from _read(stream, b"XREVRANGE", start, "-", room)
        older = [*map(letter_of, entries)]
        newest = newest or (older[0].entry if older else "")
        oldest = _BEGINNING if ended else older[-1].entry if older else oldest
        letters += older
    before, after = fields.get(_COUNTED), f"{oldest} {newest}".encode()

    def change(again: Fields) -> Fields:
        if again.get(_COUNTED) != before:
            return {}  # another client has counted these
        causes = Causes(_decoded(again.get(_CAUSES, b"")))
        for letter in letters:
            text = letter.errors[-1].text if letter.errors else ""
            seen = causes.of(letter.cause, letter.task or "")
            seen.see(letter.died_at, text, dead=1)
        return {_CAUSES: _encoded(causes), _COUNTED: after}

    if newest and after != before:
        yield from update(key, token, (_CAUSES, _COUNTED), change)
    return not newest or (ended and oldest == _BEGINNING)


def read(key: bytes) -> Operation[CauseTable]:
    """Return the causes of a queue or part that were counted."""
    fields = yield from load(key, (_CAUSES, _COUNTED))
    causes = Causes(_decoded(fields.get(_CAUSES, b""))).newest_first()
    oldest, newest = _counted(fields)
    return CauseTable(causes, oldest == _BEGINNING or not newest)


def merged(tables: Iterable[CauseTable]) -> CauseTable:
    """Return the causes of several parts as those of one queue."""
    causes, complete = Causes(), True
    for table in tables:
        causes.include(Causes(table.causes))
        complete = complete and table.complete
    return CauseTable(causes.newest_first(), complete)


def _read(
    stream: bytes, command: bytes, first: str, last: str, most: int
) -> Operation[tuple[list[Any], bool]]:
    """Return entries of a stream, and whether they are the last."""
    entries: list[Any] = []
    size, weight = 1, 0
    while len(entries) < most and weight < MAX_BYTES:
        size = min(size, most - len(entries))
        request = Request((command, stream, first, last, b"COUNT", size), resend=True)
        rows = yield request
        entries += rows
        if len(rows) < size:
            return entries, True
        bodies = [max(fields, key=len) for _, fields in rows]
        weight += sum(map(len, bodies))
        first = f"({entries[-1][0].decode()}"
        size = next_size(bodies, STEP)
    return entries, False


def _counted(fields: Mapping[bytes, bytes]) -> tuple[str, str]:
    """Return the oldest and the newest entry that were counted; empty if none was."""
    oldest, _, newest = fields.get(_COUNTED, b"").decode(errors="replace").partition(" ")
    return oldest, newest


def _encoded(causes: Causes) -> bytes:
    return orjson.dumps(
        [
            [
                each.cause,
                each.task,
                each.dead,
                each.retried,
                round(each.first, 3),
                round(each.last, 3),
                each.text,
                sorted(each.minutes.items()),
            ]
            for each in causes.newest_first()
        ]
    )


def _decoded(text: bytes) -> Iterable[Cause]:
    """Yield the causes of a record. Those that this release cannot read are left out."""
    try:
        decoded = orjson.loads(text) if text else []
    except ValueError:
        return
    for each in decoded if isinstance(decoded, list) else ():
        try:
            cause, task, dead, retried, begin, end, newest, minutes = each
            counts = {int(minute): int(count) for minute, count in minutes}
            yield Cause(cause, task, int(dead), int(retried), begin, end, newest, counts)
        except (ValueError, TypeError):
            continue
