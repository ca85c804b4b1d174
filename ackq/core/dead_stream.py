"""Reads and searches dead letters in the stream that has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from ackq.core.call import Spec, call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.inspection_results import DeadLetter, Found
from ackq.core.page_size import next_size
from ackq.core.search_terms import OnProgress

#: Most dead letters that one call reads, with their bodies.
PAGE = 100


class HasBody(Protocol):
    """A dead letter of any kind of queue."""

    @property
    def body(self) -> bytes:
        """The message, as it was pushed."""


L = TypeVar("L", bound=HasBody)


def read_dead(
    spec: Spec,
    stream: bytes,
    made: Callable[[Sequence[Any]], L],
    wanted: int,
    after: str | None,
    *context: Any,
) -> Operation[list[L]]:
    """Return up to ``wanted`` dead letters, oldest first. Cost: one round trip per 100 or 1 MiB.

    Args:
        spec: of the queue.
        stream: the key of its dead letters.
        made: returns what an entry of the stream stands for.
        wanted: how many at most.
        after: the entry after which to begin; None: at the oldest one.
        context: what ``spec`` needs besides, to translate an error.
    """
    letters: list[L] = []
    first: Arg = "-" if after is None else f"({after}"
    size = 1
    while len(letters) < wanted:
        size = min(size, wanted - len(letters))
        request = Request((b"XRANGE", stream, first, b"+", b"COUNT", size), resend=True)
        entries = yield from call(spec, request, *context)
        page = [made(entry) for entry in entries]
        letters += page
        if len(page) < size:
            break
        first = b"(" + entries[-1][0]
        size = next_size((each.body for each in page), PAGE)
    return letters


def as_found(letter: DeadLetter, queue: str = "") -> Found:
    """Return a dead letter as `find` and `search` return it."""
    return Found(
        letter.id,
        "dead",
        letter.body,
        letter.receive_count,
        queue,
        errors=letter.errors,
        entry=letter.entry,
        reason=letter.reason,
    )


def search_dead(
    spec: Spec,
    stream: bytes,
    queue: str,
    letter_of: Callable[[Sequence[Any]], DeadLetter],
    matches: Callable[[Found], bool],
    most: float,
    within: int | None,
    on_progress: OnProgress,
    *context: Any,
) -> Operation[list[Found]]:
    """Return the dead letters that match, the newest first. Cost: one round trip per 100 or 1 MiB.

    Args:
        spec: of the queue.
        stream: the key of its dead letters.
        queue: the name of the queue, shard or partition that has the stream.
        letter_of: returns the dead letter in an entry of the stream.
        matches: whether one is searched for.
        most: matches after which to stop.
        within: how many dead letters to look through; None: all.
        on_progress: called after each round trip.
        context: what ``spec`` needs besides, to translate an error.
    """
    found: list[Found] = []
    left = float("inf") if within is None else within
    before: Arg = b"+"
    size = 1
    while left and len(found) < most:
        size = int(min(size, left))
        request = Request((b"XREVRANGE", stream, before, b"-", b"COUNT", size), resend=True)
        entries = yield from call(spec, request, *context)
        page = [as_found(letter_of(entry), queue) for entry in entries]
        found += filter(matches, page)
        on_progress(len(page))
        if len(page) < size:
            break
        left -= len(page)
        before = b"(" + entries[-1][0]
        size = next_size((each.body for each in page), PAGE)
    return found[: int(min(most, len(found)))]
