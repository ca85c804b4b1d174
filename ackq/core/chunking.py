"""How much one call carries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

#: Messages, and bytes of bodies, that one call stores at most: Redis serves nobody else meanwhile.
CHUNK_MESSAGES = 1000


CHUNK_BYTES = 4 * 1024 * 1024


def end_of_chunk(bodies: list[bytes], start: int, most: int) -> int:
    """Return where the call ends that begins with the message at ``start``."""
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


#: Messages that one call settles at most.
SETTLE_CHUNK = 1000


#: Bytes of their bodies, and one message over; freeing a mebibyte takes up to 0.2 ms.
SETTLE_BYTES = 8 * 1024 * 1024


def chunks(messages: Sequence[S]) -> Iterable[Sequence[S]]:
    """Yield the messages of one call at a time: Redis frees their bodies before it goes on."""
    first = size = 0
    for place, message in enumerate(messages):
        if place - first == SETTLE_CHUNK or (size and size + len(message.body) > SETTLE_BYTES):
            yield messages[first:place]
            first, size = place, 0
        size += len(message.body)
    if first < len(messages):
        yield messages[first:]
