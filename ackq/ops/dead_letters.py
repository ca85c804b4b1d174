"""Read the dead letters of a queue of any kind, and count them by cause, in bounded steps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from ackq.core.effects import Operation
from ackq.core.inspection_results import DeadLetter, check_entry
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.core.page_size import next_size
from ackq.ops.asking import reply, run
from ackq.ops.kinds import stream_of
from ackq.ops.kinds.kind import Part, Redis
from ackq.ops.readings import Reading

#: Most dead letters, and bytes of their bodies, that are read.
MAX_READ, MAX_BYTES = 1000, 8 * 1024 * 1024
#: Most dead letters that one call reads.
STEP = 100
#: Dead letters of a page.
PAGE = 50
#: Most causes that a page lists.
CAUSES = 12
#: Most dead letters that are read to count those with a cause, and most seconds that this takes.
MAX_COUNTED, MAX_COUNT_TIME = 20_000, 1.0


@dataclass(frozen=True, slots=True)
class Causes:
    """The newest dead letters of a queue by cause."""

    #: The most frequent first.
    counts: tuple[tuple[str, int], ...]
    #: How many dead letters were read.
    read: int


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Some dead letters, newest first, and the causes of all that were read for them."""

    letters: tuple[DeadLetter, ...]
    causes: Causes
    #: The entry that the next page begins after; None after the last one.
    before: str | None


def causes_of(client: Redis, reading: Reading) -> Causes:
    """Count the newest dead letters of a queue by cause. At most `MAX_READ` are read.

    A queue with shards or partitions has that many in all, and each has an equal part of them.
    """
    parts = [part for part in reading.parts or (reading,) if part.states.get("dead")]
    counts: Counter[str] = Counter()
    for number, part in enumerate(parts):
        share = (MAX_READ - counts.total()) // (len(parts) - number)
        counts.update(
            letter.cause for letter in _bounded(newest_first(client, part.kind, part.name), share)
        )
    return Causes(tuple(counts.most_common()), counts.total())


def newest_first(
    client: Redis, kind: str, name: str, before: str | None = None
) -> Iterator[DeadLetter]:
    """Yield the dead letters of a queue or part that are older than an entry, newest first.

    One call reads at most `STEP`, or fewer if they are long.

    Args:
        client: of its server.
        kind: that it has by itself.
        name: that it has by itself.
        before: an entry; None: from the newest one.

    Raises:
        ConfigurationError: ``before`` is not an entry, or the queue has no dead letters of its own.
    """
    if before is not None:
        check_entry(before)
    key, letter_of = stream_of(kind, name)
    driver = Driver(route_of(client, key))
    size = 1
    last = "+" if before is None else f"({before}"
    with closing(driver.route):
        while True:
            older = driver.run(reply(b"XREVRANGE", key, last, b"-", b"COUNT", size))
            letters = [letter_of(each) for each in older]
            yield from letters
            if len(letters) < size:
                return
            last = f"({letters[-1].entry}"
            size = next_size((each.body for each in letters), STEP)


def _bounded(letters: Iterable[DeadLetter], most: int) -> Iterator[DeadLetter]:
    """Yield up to ``most`` dead letters, of 8 MiB of bodies and one more call's."""
    weight = 0
    for letter in islice(letters, most):
        yield letter
        weight += len(letter.body)
        if weight >= MAX_BYTES:
            return


def every(part: Part) -> Iterator[DeadLetter]:
    """Yield all dead letters, oldest first.

    One call reads at most `STEP`, or fewer if they are long. What dies meanwhile is appended, so
    reading ends soon.
    """
    size, after = 1, None
    while letters := part.dead_letters(size, after=after):
        yield from letters
        if len(letters) < size:
            return
        after = letters[-1].entry
        size = next_size((letter.body for letter in letters), STEP)


def has_cause(letter: DeadLetter, cause: str | None, task: str | None = None) -> bool:
    """Return whether a dead letter has a cause and is of a task; None: any, and empty: of none."""
    return (cause is None or letter.cause == cause) and (
        task is None or (letter.task or "") == task
    )


def page(
    client: Redis,
    kind: str,
    name: str,
    before: str | None,
    cause: str | None,
    task: str | None = None,
) -> DeadPage:
    """Read the dead letters that are older than an entry. At most `MAX_READ` are read.

    Args:
        client: of the server.
        kind: of the queue or part.
        name: of the queue or part.
        before: an entry; None: from the newest.
        cause: only those with this cause. A page may then be empty before the end.
        task: only those whose messages have this in the field ``task``, or no such field if it is
            empty.

    Raises:
        ConfigurationError: ``before`` is not an entry, or the queue has no dead letters of its own.
    """
    shown: list[DeadLetter] = []
    causes: Counter[str] = Counter()
    full_at: str | None = None
    last: str | None = None
    for letter in _bounded(newest_first(client, kind, name, before), MAX_READ):
        last = letter.entry
        causes[letter.cause] += 1
        if has_cause(letter, cause, task):
            if len(shown) < PAGE:
                shown.append(letter)
            elif full_at is None:
                full_at = shown[-1].entry
    more = last is not None and next(newest_first(client, kind, name, last), None) is not None
    following = full_at or (last if more else None)
    return DeadPage(
        tuple(shown), Causes(tuple(causes.most_common(CAUSES)), causes.total()), following
    )


def count_with(
    client: Redis, kind: str, name: str, cause: str | None, task: str | None = None
) -> tuple[int, int]:
    """Return how many of the newest dead letters have this cause and task, and how many were read.

    At most `MAX_COUNTED` are read, for at most `MAX_COUNT_TIME`.
    """
    matching = read = 0
    end = time.monotonic() + MAX_COUNT_TIME
    for letter in islice(newest_first(client, kind, name), MAX_COUNTED):
        read += 1
        matching += has_cause(letter, cause, task)
        if time.monotonic() > end:
            break
    return matching, read


def find(part: Part, entry: str) -> DeadLetter | None:
    """Return the dead letter with this entry, or None if it is not there.

    Raises:
        ConfigurationError: that is not an entry.
    """
    check_entry(entry)
    first, second = _numbers(entry)
    if first + second == 0:
        return None
    before = f"{first}-{second - 1}" if second else f"{first - 1}-{2**64 - 1}"
    letters = part.dead_letters(1, after=before)
    return letters[0] if letters and letters[0].entry == entry else None


def newest(client: Redis, kind: str, name: str) -> tuple[int, str]:
    """Return how many dead letters a queue has, and the entry of the newest one.

    Raises:
        ConfigurationError: queues of this kind have none of their own.
    """
    key, _ = stream_of(kind, name)
    return run(client, key, _newest(key))


def _newest(key: bytes) -> Operation[tuple[int, str]]:
    count: int = yield from reply(b"XLEN", key)
    entries = yield from reply(b"XREVRANGE", key, b"+", b"-", b"COUNT", 1)
    return count, entries[0][0].decode() if entries else ""


def is_after(entry: str, other: str) -> bool:
    """Return whether a dead letter is newer than another."""
    return _numbers(entry) > _numbers(other)


def _numbers(entry: str) -> tuple[int, int]:
    first, _, second = entry.partition("-")
    return int(first or 0), int(second or 0)
