"""The notes of why messages failed, which a queue keeps until they are acked or die."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from ackq.config import RecordErrors
from ackq.core.call import Spec, call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.failure import Failure, capture, parse
from ackq.core.inspection_results import Found, PeekedMessage

#: Messages that one call settles if it records why they failed: each failure takes up to 8 KiB.
FAILED_CHUNK = 100
#: Notes that one call reads, of at most 40 KiB each.
READ = 50
#: Ends of a body whose hash ties a note to it.
_END = 512


class Failing(Protocol):
    """A message of any product that keeps notes."""

    failure: bytes


S = TypeVar("S")
Seen = TypeVar("Seen", bound=PeekedMessage | Found)


def note_error(
    messages: Iterable[Failing], error: BaseException | None, detail: RecordErrors
) -> None:
    """Let the next nack or reject of these messages record why they failed."""
    if error is not None:
        failure = capture(error, detail)
        for message in messages:
            message.failure = failure


def failed_chunks(messages: Sequence[S]) -> Iterable[Sequence[S]]:
    """Return messages in chunks that one nack or reject may settle."""
    return (messages[at : at + FAILED_CHUNK] for at in range(0, len(messages), FAILED_CHUNK))


def arguments(messages: Sequence[Failing]) -> list[Arg]:
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


def with_errors(
    spec: Spec, errors: bytes, seen: Sequence[Seen], keys: Sequence[bytes]
) -> Operation[list[Seen]]:
    """Return messages with why they failed; only redelivered ones can have failed.

    Args:
        spec: of the queue.
        errors: the key of the notes.
        seen: the messages.
        keys: what their notes are stored under; empty for messages that have none.
    """
    completed = list(seen)
    places = [at for at, key in enumerate(keys) if key and seen[at].receive_count]
    for first in range(0, len(places), READ):
        chunk = places[first : first + READ]
        request = Request((b"HMGET", errors, *(keys[at] for at in chunk)), resend=True)
        notes: list[bytes | None] = yield from call(spec, request)
        for at, note in zip(chunk, notes, strict=True):
            if failures := _of_this_message(note, seen[at]):
                completed[at] = replace(seen[at], errors=failures)
    return completed


def _of_this_message(note: bytes | None, message: PeekedMessage | Found) -> tuple[Failure, ...]:
    """Return the failures in a note, unless it belongs to an earlier message with the same key."""
    of, _, lines = (note or b"").partition(b"\n")
    if of != mark(message.body):
        return ()
    failures = parse(lines)
    return failures if all(failure.attempt <= message.receive_count for failure in failures) else ()


def mark(body: bytes) -> bytes:
    """Return what ties a note to the body of its message, as ``lua/parts/mark.lua`` does."""
    ends = hashlib.sha1(body[:_END] + body[-_END:], usedforsecurity=False).hexdigest()
    return b"%d:%s" % (len(body), ends.encode())
