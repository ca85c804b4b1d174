"""How many messages the next read asks for, where Redis cannot limit a reply by its bytes."""

from __future__ import annotations

from collections.abc import Iterable

#: Bytes of bodies that one read should bring.
TARGET = 1024 * 1024


def next_size(bodies: Iterable[bytes | None], most: int) -> int:
    """Return twice the last page's size, as long as bodies of that length fit into a mebibyte.

    Start with one: nothing is known about the lengths before the first reply.
    """
    lengths = [len(body) if body else 0 for body in bodies]
    average = 1 + sum(lengths) // max(1, len(lengths))
    return max(1, min(most, 2 * len(lengths), TARGET // average))
