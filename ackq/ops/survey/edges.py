"""Watch both ends of a list, and infer from its edges where messages are pushed and taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ackq.core.effects import Clock, Operation, Request, Sleep

#: Most messages read at one end in one look, and most bytes that are expected of them.
WIDEST, LOOK_BYTES = 64, 64 * 1024
#: Most looks, and most bytes that all of them together may read.
READINGS, BUDGET = 200, 8 * 1024 * 1024
#: Longest average body for which the edges are read at all.
MAX_BYTES = 1024 * 1024
#: Shortest and longest time between two looks, in seconds.
MIN_PAUSE, MAX_PAUSE = 0.05, 1.0


@dataclass(slots=True)
class End:
    """What was seen at one end of a list.

    Attributes:
        pushed: messages that appeared at this end.
        taken: messages that disappeared from this end.
        unclear: looks after which the end could not be compared with the one before: the list had
            been emptied or filled, more changed than one look shows, or the bodies are all alike.
    """

    pushed: int = 0
    taken: int = 0
    unclear: int = 0

    def note(self, before: Sequence[bytes], after: Sequence[bytes]) -> bool:
        """Compare two looks, each from the end inwards; return whether they could be compared."""
        if before == after:
            return True
        moved = shift(before, after)
        if moved is None:
            self.unclear += 1
            return False
        self.pushed += max(0, moved)
        self.taken += max(0, -moved)
        return True


@dataclass(slots=True)
class Traffic:
    """What happened to a list while it was watched.

    ``lengths`` has the first and the last length. ``read`` is False if the bodies are too long, or
    this user may not read them: then the ends are unknown.
    """

    seconds: float = 0.0
    lengths: tuple[int, int] = (0, 0)
    readings: int = 0
    read: bool = True
    left: End = field(default_factory=End)
    right: End = field(default_factory=End)


def shift(before: Sequence[bytes], after: Sequence[bytes]) -> int | None:
    """Return how many messages were pushed at an end, or the negative number taken from it.

    None: the looks do not overlap, or both explanations fit, because bodies are equal.
    """
    for moved in range(max(len(before), len(after))):
        pushed, taken = _continues(after[moved:], before), _continues(before[moved:], after)
        if pushed and taken:
            return None if moved else 0
        if pushed or taken:
            return moved if pushed else -moved
    return None


def _continues(one: Sequence[bytes], other: Sequence[bytes]) -> bool:
    common = min(len(one), len(other))
    return common > 0 and one[:common] == other[:common]


def watch(key: bytes, seconds: float, average: float) -> Operation[Traffic]:
    """Watch a list for a while. 3 round trips per reading, at most `READINGS` readings.

    Args:
        key: of the list.
        seconds: how long to watch. Watching ends earlier once `BUDGET` bytes were read.
        average: expected size of a body in bytes.
    """
    width = max(2, min(WIDEST, int(LOOK_BYTES / max(1.0, average))))
    traffic = Traffic(read=average <= MAX_BYTES)
    pause = min(MAX_PAUSE, max(MIN_PAUSE, seconds / READINGS))
    start = now = yield Clock()
    length, edges = yield from _read_edges(key, width if traffic.read else 0)
    first, spent = length, _size(edges)
    while now - start < seconds and traffic.readings < READINGS and spent < BUDGET:
        yield Sleep(min(pause, max(0.0, start + seconds - now)))
        before = edges
        length, edges = yield from _read_edges(key, width if traffic.read else 0)
        traffic.readings += 1
        spent += _size(edges)
        clear = traffic.left.note(before[0], edges[0]) & traffic.right.note(before[1], edges[1])
        # A busy list: the next look follows at once, so that the two overlap.
        pause = pause if clear or not length else 0.0
        now = yield Clock()
    traffic.seconds, traffic.lengths = now - start, (first, length)
    return traffic


def _read_edges(key: bytes, width: int) -> Operation[tuple[int, tuple[list[bytes], list[bytes]]]]:
    """Return the length, and the messages at each end, from the end inwards."""
    length: int = yield Request((b"LLEN", key), resend=True)
    if not width:
        return length, ([], [])
    left: list[bytes] = yield Request((b"LRANGE", key, 0, width - 1), resend=True)
    right: list[bytes] = yield Request((b"LRANGE", key, -width, -1), resend=True)
    return length, (left, right[::-1])


def _size(edges: tuple[list[bytes], list[bytes]]) -> int:
    return sum(map(len, edges[0])) + sum(map(len, edges[1]))
