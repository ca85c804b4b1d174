"""Read the dead letters of a queue of any kind, and count them by cause, in bounded steps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from ackq.core.effects import Operation, Request
from ackq.core.inspection_results import DeadLetter, check_entry
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.core.page_size import next_size
from ackq.errors import ConfigurationError
from ackq.ops.kinds import kind_for, only_part, opened
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
    """The oldest dead letters of a queue by cause."""

    #: The most frequent first.
    counts: tuple[tuple[str, int], ...]
    #: How many dead letters were read.
    read: int


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Some dead letters, oldest first, and the causes of all that were read for them."""

    letters: tuple[DeadLetter, ...]
    causes: Causes
    #: Where the next page begins; None after the last one.
    after: str | None


def causes_of(client: Redis, reading: Reading) -> Causes:
    """Count the oldest dead letters of a queue by cause. At most `MAX_READ` are read."""
    counts: Counter[str] = Counter()
    for each in reading.parts or (reading,):
        left = MAX_READ - counts.total()
        if each.states.get("dead") and left:
            with opened(client, each.kind, each.name, "dead") as queue:
                counts.update(each.cause for each in oldest(only_part(queue), None, left))
    return Causes(tuple(counts.most_common()), counts.total())


def oldest(part: Part, after: str | None, most: int) -> Iterator[DeadLetter]:
    """Yield up to ``most`` dead letters that follow the entry ``after``; None: from the first.

    At most 8 MiB of bodies are read, and one more call's.
    """
    weight = 0
    for letter in islice(every(part, after), most):
        yield letter
        weight += len(letter.body)
        if weight >= MAX_BYTES:
            return


def every(part: Part, after: str | None = None) -> Iterator[DeadLetter]:
    """Yield the dead letters that follow an entry, oldest first.

    One call reads at most `STEP`, or fewer if they are long. What dies meanwhile is appended, so
    reading ends soon.
    """
    size = 1
    while found := part.dead_letters(size, after=after):
        yield from found
        if len(found) < size:
            return
        after = found[-1].entry
        size = next_size((each.body for each in found), STEP)


def page(part: Part, after: str | None, cause: str | None) -> DeadPage:
    """Read the dead letters that follow the entry ``after``. At most `MAX_READ` are read.

    Args:
        part: whose dead letters.
        after: an entry; None: from the first.
        cause: only those with this cause. A page may then be empty before the end.

    Raises:
        ConfigurationError: ``after`` is not an entry.
    """
    shown: list[DeadLetter] = []
    causes: Counter[str] = Counter()
    full_at: str | None = None
    last: str | None = None
    for letter in oldest(part, after, MAX_READ):
        last = letter.entry
        causes[letter.cause] += 1
        if cause is None or letter.cause == cause:
            if len(shown) < PAGE:
                shown.append(letter)
            elif full_at is None:
                full_at = shown[-1].entry
    more = last is not None and bool(part.dead_letters(1, after=last))
    following = full_at or (last if more else None)
    return DeadPage(
        tuple(shown), Causes(tuple(causes.most_common(CAUSES)), causes.total()), following
    )


def count_with(part: Part, cause: str, until: str) -> tuple[int, int]:
    """Return how many dead letters up to ``until`` have this cause, and how many were read.

    At most `MAX_COUNTED` are read, for at most `MAX_COUNT_TIME`.
    """
    matching = read = 0
    end = time.monotonic() + MAX_COUNT_TIME
    for letter in every(part):
        if is_after(letter.entry, until) or read >= MAX_COUNTED or time.monotonic() > end:
            break
        read += 1
        matching += letter.cause == cause
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
    found = part.dead_letters(1, after=before)
    return found[0] if found and found[0].entry == entry else None


def newest(client: Redis, kind: str, name: str) -> tuple[int, str]:
    """Return how many dead letters a queue has, and the entry of the newest one.

    Raises:
        ConfigurationError: queues of this kind have none of their own.
    """
    stream_of = kind_for("dead", kind).dead
    if stream_of is None:
        raise ConfigurationError(f"{name!r} has no dead letters of its own: its shards have them")
    key = stream_of(name)
    driver = Driver(route_of(client, key))
    with closing(driver.route):
        return driver.run(_newest(key))


def _newest(key: bytes) -> Operation[tuple[int, str]]:
    count: int = yield Request((b"XLEN", key), resend=True)
    found = yield Request((b"XREVRANGE", key, b"+", b"-", b"COUNT", 1), resend=True)
    return count, found[0][0].decode() if found else ""


def is_after(entry: str, other: str) -> bool:
    """Return whether a dead letter is newer than another."""
    return _numbers(entry) > _numbers(other)


def _numbers(entry: str) -> tuple[int, int]:
    first, _, second = entry.partition("-")
    return int(first or 0), int(second or 0)
