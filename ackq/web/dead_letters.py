"""Read a page of a list queue's dead letters, in bounded steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ackq.core.inspected import DeadLetter
from ackq.ops.causes import MOST_READ, oldest
from ackq.queue.client import Queue

#: Dead letters of a page.
PAGE = 50
#: Most causes that are listed.
CAUSES = 12


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Some dead letters, oldest first, and what was seen while they were read."""

    letters: tuple[DeadLetter, ...]
    #: How many dead letters were read, and how many of them had each cause.
    read: int
    causes: tuple[tuple[str, int], ...]
    #: Where the next page begins; None after the last one.
    after: str | None


def dead_page(queue: Queue, after: str | None, cause: str | None) -> DeadPage:
    """Read the dead letters that follow the entry ``after``. At most `MOST_READ` are read.

    Args:
        queue: whose dead letters.
        after: an entry; None: from the first.
        cause: only those with this cause. A page may then be empty before the end.

    Raises:
        ConfigurationError: ``after`` is not an entry.
    """
    shown: list[DeadLetter] = []
    causes: Counter[str] = Counter()
    read = 0
    full_at: str | None = None
    last: str | None = None
    for letter in oldest(queue, after, MOST_READ):
        read += 1
        last = letter.entry
        causes[letter.cause] += 1
        if cause is not None and letter.cause != cause:
            continue
        if len(shown) < PAGE:
            shown.append(letter)
        elif full_at is None:
            full_at = shown[-1].entry
    more = last is not None and bool(queue.dead_letters(1, after=last))
    following = full_at or (last if more else None)
    return DeadPage(tuple(shown), read, tuple(causes.most_common(CAUSES)), following)
