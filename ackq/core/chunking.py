"""How much one call sends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

#: Most messages, and bytes of bodies, in one call: Redis serves no other client meanwhile.
CHUNK_MESSAGES = 1000


CHUNK_BYTES = 4 * 1024 * 1024


def end_of_chunk(bodies: list[bytes], start: int, most: int) -> int:
    """Return the end of the chunk that begins with the message at ``start``."""
    end = min(start + most, len(bodies))
    if sum(map(len, bodies[start:end])) <= CHUNK_BYTES:
        return end
    size = len(bodies[start])
    for at in range(start + 1, end):
        size += len(bodies[at])
        if size > CHUNK_BYTES:
            return at
    return end


class HasBody(Protocol):
    """A message of any queue."""

    body: bytes


S = TypeVar("S", bound=HasBody)


#: Most messages that one call settles.
SETTLE_CHUNK = 1000


#: Bytes of their bodies; the last message may exceed it. Freeing 1 MiB takes up to 0.2 ms.
SETTLE_BYTES = 8 * 1024 * 1024


def chunks(messages: Sequence[S]) -> Iterable[Sequence[S]]:
    """Yield the messages in chunks, since Redis frees a call's bodies before it continues."""
    first = size = 0
    for place, message in enumerate(messages):
        if place - first == SETTLE_CHUNK or (size and size + len(message.body) > SETTLE_BYTES):
            yield messages[first:place]
            first, size = place, 0
        size += len(message.body)
    if first < len(messages):
        yield messages[first:]
