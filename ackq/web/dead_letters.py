"""Read the dead letters of a queue of any kind, in bounded steps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ackq.core.effects import Operation, Request
from ackq.core.inspected import DeadLetter, check_entry
from ackq.core.io.connections import route_of
from ackq.core.io.driver import Driver
from ackq.delay.client import DelayQueue
from ackq.delay.messages import DelayKeys
from ackq.errors import ConfigurationError
from ackq.ops.causes import MOST_READ, Read, every, oldest
from ackq.queue.keys import QueueKeys
from ackq.rsmq.client import RSMQ
from ackq.rsmq.values import TOO_OFTEN, RSMQDeadLetter, RSMQSpec
from ackq.web.inspecting import Redis, open_queue

#: Dead letters of a page.
PAGE = 50
#: Most causes that are listed.
CAUSES = 12
#: Most dead letters that are read to count those with a cause, and most seconds that this takes.
MOST_COUNTED, LONGEST_COUNT = 20_000, 1.0
#: The kinds of queue that have dead letters of their own.
KINDS = ("list", "delay", "rsmq")


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of an open queue."""

    #: Reads some, oldest first, after an entry.
    read: Read[DeadLetter]
    #: Deletes those with these entries, and returns how many.
    drop: Callable[[Sequence[str]], int]
    #: Makes those with these entries ready again, and returns how many.
    redrive: Callable[[Sequence[str]], int]


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Some dead letters, oldest first, and what was seen while they were read."""

    letters: tuple[DeadLetter, ...]
    #: How many dead letters were read, and how many of them had each cause.
    read: int
    causes: tuple[tuple[str, int], ...]
    #: Where the next page begins; None after the last one.
    after: str | None


@contextmanager
def opened(client: Redis, kind: str, name: str) -> Iterator[DeadLetters]:
    """Yield the dead letters of a queue.

    Raises:
        ConfigurationError: queues of this kind have none, or the name is impossible.
    """
    if kind == "list":
        with open_queue(client, name) as queue:
            yield DeadLetters(
                lambda n, after: queue.dead_letters(n, after=after),
                lambda entries: queue.drop_dead_letters(*entries),
                lambda entries: queue.redrive(entries=entries),
            )
    elif kind == "delay":
        with DelayQueue(client, name) as delay:
            yield DeadLetters(
                lambda n, after: delay.dead_letters(n, after=after),
                lambda entries: delay.drop_dead_letters(*entries),
                lambda entries: delay.redrive(entries=entries),
            )
    elif kind == "rsmq":
        namespace, _, qname = name.rpartition(":")
        with RSMQ(client, namespace) as rsmq:
            yield DeadLetters(
                lambda n, after: list(map(_of_rsmq, rsmq.dead_letters(qname, n, after=after))),
                lambda entries: rsmq.drop_dead_letters(qname, *entries),
                lambda entries: rsmq.redrive(qname, entries=entries),
            )
    else:
        raise ConfigurationError(f"a queue of kind {kind!r} has no dead letters")


def dead_page(letters: DeadLetters, after: str | None, cause: str | None) -> DeadPage:
    """Read the dead letters that follow the entry ``after``. At most `MOST_READ` are read.

    Args:
        letters: those of a queue.
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
    for letter in oldest(letters.read, after, MOST_READ):
        read += 1
        last = letter.entry
        causes[letter.cause] += 1
        if cause is None or letter.cause == cause:
            if len(shown) < PAGE:
                shown.append(letter)
            elif full_at is None:
                full_at = shown[-1].entry
    more = last is not None and bool(letters.read(1, last))
    following = full_at or (last if more else None)
    return DeadPage(tuple(shown), read, tuple(causes.most_common(CAUSES)), following)


def count_with(letters: DeadLetters, cause: str, until: str) -> tuple[int, int]:
    """Return how many dead letters up to ``until`` have this cause, and how many were read.

    At most `MOST_COUNTED` are read, for at most `LONGEST_COUNT`.
    """
    matching = read = 0
    end = time.monotonic() + LONGEST_COUNT
    for letter in every(letters.read, None):
        if is_after(letter.entry, until) or read >= MOST_COUNTED or time.monotonic() > end:
            break
        read += 1
        matching += letter.cause == cause
    return matching, read


def find(letters: DeadLetters, entry: str) -> DeadLetter | None:
    """Return the dead letter with this entry, or None if it is not there.

    Raises:
        ConfigurationError: that is not an entry.
    """
    check_entry(entry)
    first, second = _numbers(entry)
    if first + second == 0:
        return None
    before = f"{first}-{second - 1}" if second else f"{first - 1}-{2**64 - 1}"
    found = letters.read(1, before)
    return found[0] if found and found[0].entry == entry else None


def newest(client: Redis, kind: str, name: str) -> tuple[int, str]:
    """Return how many dead letters a queue has, and the entry of the newest one."""
    if kind == "rsmq":
        namespace, _, qname = name.rpartition(":")
        key = RSMQSpec(namespace).keys(qname).dead
    else:
        key = DelayKeys.of(name).dead if kind == "delay" else QueueKeys.of(name).dead
    driver = Driver(route_of(client, key))
    try:
        return driver.run(_newest(key))
    finally:
        driver.route.close()


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


def _of_rsmq(letter: RSMQDeadLetter) -> DeadLetter:
    return DeadLetter(
        letter.entry,
        letter.id,
        letter.body,
        TOO_OFTEN,
        letter.rc,
        letter.died_at / 1000,
        letter.errors,
    )
