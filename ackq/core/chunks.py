"""How much one call sends: Redis serves no other client while it runs the call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

#: Most messages, and bytes of bodies, that one call stores.
CHUNK_MESSAGES = 1000
CHUNK_BYTES = 4 * 1024 * 1024
#: Most messages, and bytes of their bodies, that one call settles. Freeing 1 MiB takes up to
#: 0.2 ms.
SETTLE_CHUNK = 1000
SETTLE_BYTES = 8 * 1024 * 1024
#: Most messages with groups that one call acks: each group may take its turn.
GROUPED_CHUNK = 100

#: Most messages that one call takes.
TAKE_CHUNK = 1000

T = TypeVar("T")


class HasBody(Protocol):
    """A message of any queue."""

    body: bytes


S = TypeVar("S", bound=HasBody)


def end_of_chunk(sizes: Sequence[int], start: int, most: int, most_bytes: int) -> int:
    """Return the end of the chunk that begins at ``start``.

    Args:
        sizes: the size of each item in bytes.
        start: the position of the first item.
        most: most items in the chunk.
        most_bytes: most bytes in the chunk. A longer item is a chunk of its own.
    """
    end = min(start + most, len(sizes))
    if sum(sizes[start:end]) <= most_bytes:
        return end
    total = sizes[start]
    for at in range(start + 1, end):
        total += sizes[at]
        if total > most_bytes:
            return at
    return end


def chunked(
    items: Sequence[T],
    sizes: Sequence[int],
    most: int = CHUNK_MESSAGES,
    most_bytes: int = CHUNK_BYTES,
) -> Iterator[Sequence[T]]:
    """Yield ``items`` in chunks; see `end_of_chunk`."""
    start = 0
    while start < len(items):
        end = end_of_chunk(sizes, start, most, most_bytes)
        yield items[start:end]
        start = end


def settle_chunks(messages: Sequence[S], most: int = SETTLE_CHUNK) -> Sequence[Sequence[S]]:
    """Return messages in chunks of at most ``most`` that one call may settle."""
    if len(messages) <= 1:
        return (messages,) if messages else ()
    sizes = [len(message.body) for message in messages]
    if len(sizes) <= most and sum(sizes) <= SETTLE_BYTES:
        return (messages,)
    return tuple(chunked(messages, sizes, most, SETTLE_BYTES))
