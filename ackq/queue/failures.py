"""The notes of why messages failed, which a queue keeps until they are acked or die."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.failure import Failure, parse
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec

#: Notes that one call reads, of at most 40 KiB each.
READ = 50
#: Ends of a body whose hash ties a note to it.
_END = 512


def arguments(messages: Sequence[Message]) -> list[Arg]:
    """Return the last arguments of nack and reject: why these messages failed, in their order."""
    if not any(message.failure for message in messages):
        return []
    pairs: list[Arg] = []
    for position, message in enumerate(messages, 1):
        if pairs and pairs[-1] == message.failure:
            pairs[-2] = position
        else:
            pairs += (position, message.failure)
    return ["errors", *pairs]


def read(
    spec: QueueSpec, wanted: Sequence[tuple[bytes, bytes, int]]
) -> Operation[list[tuple[Failure, ...]]]:
    """Return the failures of messages, given by their keys, bodies and receive counts."""
    found: list[tuple[Failure, ...]] = []
    for first in range(0, len(wanted), READ):
        chunk = wanted[first : first + READ]
        keys = [key for key, _, _ in chunk]
        notes = yield from call(spec, Request((b"HMGET", spec.keys.errors, *keys), resend=True))
        for note, (_, body, count) in zip(notes, chunk, strict=True):
            found.append(_of_this_message(note, body, count))
    return found


def _of_this_message(note: bytes | None, body: bytes, count: int) -> tuple[Failure, ...]:
    """Return the failures in a note, unless it belongs to an earlier message with the same key."""
    mark, _, lines = (note or b"").partition(b"\n")
    if mark != _mark(body):
        return ()
    failures = parse(lines)
    return failures if all(each.attempt <= count for each in failures) else ()


def _mark(body: bytes) -> bytes:
    ends = hashlib.sha1(body[:_END] + body[-_END:], usedforsecurity=False).hexdigest()
    return b"%d:%s" % (len(body), ends.encode())
